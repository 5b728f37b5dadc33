// Evaluates a saved model on files that its run may not have seen.
#pragma once

#include <string>
#include <vector>

#include "trainer/report/observer.h"
#include "trainer/worker/saved_job.h"

namespace ddprun::trainer {

struct SavedEvaluation {
  EvalReport report;
  std::vector<std::string> notes;  // what was left out of the files; lines
};

// Evaluates each sample of the files once, as the run evaluates its validation data: with the
// metrics, the batches and the precision of its config, on one process and the CPU. Values
// and classes become numbers as in training. Throws Failure.
SavedEvaluation EvaluateSaved(const SavedJob& saved, const std::vector<std::string>& files);

}  // namespace ddprun::trainer
