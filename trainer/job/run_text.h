// The description of a run that ddp-trainer stores in its checkpoints: Checkpoint::run().
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"

namespace ddprun::trainer {

// Returns the description. A resumed run compares itself with it (resume.cc, compute_setup.cc).
// `evaluation_due` means that a resumed run first does the evaluation of the step.
std::string RunText(const Job& job, const StepPlan& plan, bool evaluation_due);

// Parses a description. The result is an object with "config" (resolved), "world_size",
// "step_samples", "total_steps", "matmul_engine", "data" (DescribeData). Keys are missing if
// another program or an older version saved the checkpoint, "data" also if it is not UTF-8.
nlohmann::json ReadRunText(const std::string& run);

// Returns `evaluation_due` of the description.
bool OwesEvaluation(const std::string& run);

}  // namespace ddprun::trainer
