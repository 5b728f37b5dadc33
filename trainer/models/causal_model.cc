#include "trainer/models/causal_model.h"

#include "trainer/compute/cross_entropy.h"
#include "trainer/compute/linear.h"
#include "trainer/models/layers.h"

namespace ddprun::trainer {

at::Tensor CausalModel::Outputs(const Batch& batch) {
  return Scores(batch.inputs, CausalMask(batch.attention_mask));
}

at::Tensor CausalModel::LossFrom(const at::Tensor& outputs, const Batch& batch) {
  return CrossEntropy(outputs.view({-1, vocab_size_}), batch.targets.reshape({-1}),
                      batch.predictions, Smoothing());
}

at::Tensor CausalModel::Loss(const Batch& batch) {
  // Smoothing needs the scores of all tokens.
  if (Smoothing() > 0) return LossFrom(Outputs(batch), batch);
  const at::Tensor hidden = Hidden(batch.inputs, CausalMask(batch.attention_mask), nullptr);
  return LinearCrossEntropy(hidden, lm_head_, batch.targets.reshape({-1}));
}

at::Tensor CausalModel::Logits(const at::Tensor& inputs) {
  return Scores(inputs, {});
}

at::Tensor CausalModel::NextScores(const at::Tensor& inputs, KeyValueCache& cache) {
  const at::Tensor hidden = Hidden(inputs, {}, &cache);
  return LinearLayer(LastOfEach(hidden, inputs.size(0)), lm_head_, {});
}

// [B, L] -> [B, L, V]
at::Tensor CausalModel::Scores(const at::Tensor& inputs, const at::Tensor& mask) const {
  return LinearLayer(Hidden(inputs, mask, nullptr), lm_head_, {})
      .view({inputs.size(0), inputs.size(1), vocab_size_});
}

}  // namespace ddprun::trainer
