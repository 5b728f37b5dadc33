// Compares a saved run with the run that resumes it.
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"

namespace ddprun::trainer {

// What CompareRuns() needs of a checkpoint.
struct SavedRun {
  SavedRun() = default;
  SavedRun(const Checkpoint& checkpoint);

  std::string path = {};  // empty: there is no checkpoint
  std::string run = {};   // Checkpoint::run()
  bool model_only = false;
};

// Compares the saved run with the run that resumes it. Returns a line for each key that matters and
// has changed. Throws Failure if the run cannot resume (page "cannot-resume").
std::vector<std::string> CompareRuns(const SavedRun& saved, const Job& job, const StepPlan& plan);

}  // namespace ddprun::trainer
