// The loss of a model's outputs, for models whose loss the config chooses.
#pragma once

#include <cstdint>

#include "trainer/config/training_config.h"
#include "trainer/data/dataset.h"

namespace ddprun::trainer {

struct LossOptions {
  // kAuto: cross-entropy if the targets are integers, else the mean squared error.
  // kCrossEntropy: scores [B, classes] or [B, L, classes] and targets int64 [B] or [B, L].
  // kMse: numbers and targets of equal shape; [B, 1] also fits targets [B].
  // kCausalLm: cross-entropy of scores [B, L, vocab] and the tokens that follow, [B, L].
  Loss kind = Loss::kAuto;
  double label_smoothing = 0;  // cross-entropy: part of the target that all classes share
};

// A target that losses and metrics do not count.
constexpr int64_t kIgnoredTarget = -100;

// Returns the mean over batch.predictions, with weights of samples the weighted mean: a scalar
// with a graph, like torch.nn.functional's cross_entropy and mse_loss. Targets are smoothed only in
// training. Throws Failure if outputs and targets do not fit each other.
at::Tensor LossOf(const LossOptions& options,
                  const at::Tensor& outputs,
                  const Batch& batch,
                  bool training);

}  // namespace ddprun::trainer
