// Evaluates the model of a checkpoint on files that its run may not have seen.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

struct CheckpointEvaluation {
  EvalReport report;
  std::vector<std::string> notes;  // what was left out of the files; lines
};

// Evaluates each sample of the files once, as the run evaluates its validation data: with the
// metrics, the batches and the precision of its config, on one process and the CPU. Values
// and classes become numbers as in training. Throws Failure.
CheckpointEvaluation EvaluateCheckpoint(const Checkpoint& checkpoint,
                                        const std::vector<std::string>& files,
                                        const Environment& environment);

}  // namespace ddprun::trainer
