// Evaluates a saved model on files that its run may not have seen.
#pragma once

#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "trainer/report/observer.h"
#include "trainer/worker/saved_job.h"

namespace ddprun::trainer {

struct SavedEvaluation {
  EvalReport report;
  std::vector<std::string> notes;  // what was left out of the files; lines
};

// Evaluates each sample of the files once, as the run evaluates its validation data: with the
// metrics, the batches and the precision of its config, on the ranks and the device of the mesh.
// Values and classes become numbers as in training. A collective. Throws Failure.
SavedEvaluation EvaluateSaved(const SavedJob& saved,
                              const std::vector<std::string>& files,
                              const Mesh& mesh);

}  // namespace ddprun::trainer
