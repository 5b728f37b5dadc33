// The loss of a model's outputs, for models that leave the choice to the config.
#pragma once

#include <cstdint>

#include "trainer/config/training_config.h"
#include "trainer/data/dataset.h"

namespace ddprun::trainer {

struct LossOptions {
  // kAuto: cross-entropy where the targets are integers, else the mean squared error.
  // kCrossEntropy: scores [B, classes] or [B, L, classes] and targets int64 [B] or [B, L].
  // kMse: numbers and targets of equal shape; [B, 1] also fits targets [B].
  // kCausalLm: cross-entropy of scores [B, L, vocab] and the tokens that follow, [B, L].
  Loss kind = Loss::kAuto;
  double label_smoothing = 0;  // cross-entropy: share of the target given to all classes alike
};

// A target that no loss and no metric counts.
constexpr int64_t kIgnoredTarget = -100;

// The mean over batch.predictions, a scalar with a graph, as torch.nn.functional's cross_entropy
// and mse_loss. Targets are smoothed in training only. Throws Failure when outputs and targets do
// not fit each other.
at::Tensor LossOf(const LossOptions& options,
                  const at::Tensor& outputs,
                  const Batch& batch,
                  bool training);

}  // namespace ddprun::trainer
