// What a checkpoint of ddp-trainer says of its run: Checkpoint::run().
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "trainer/loop/job.h"

namespace ddprun::trainer {

// What a later start compares itself with (resume.cc, compute_setup.cc), and what it does first.
std::string RunText(const Job& job, const StepPlan& plan, bool evaluation_due);

// Of RunText, an object: "config" as it was resolved, "world_size", "step_samples", "total_steps",
// "matmul_engine". Where another program or an older version has saved, keys are missing.
nlohmann::json ReadRunText(const std::string& run);

// Whether the step's evaluation was left out, for the run was to stop.
bool OwesEvaluation(const std::string& run);

}  // namespace ddprun::trainer
