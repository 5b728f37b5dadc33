#include "trainer/models/causal_model.h"

#include <c10/util/Exception.h>

#include "trainer/compute/operations.h"

namespace ddprun::trainer {

// Returns HiddenStages() followed by the scores: [N, C] -> [B, L, V].
std::vector<Stage> CausalModel::Stages(const Batch& batch) const {
  auto stages = HiddenStages(batch.inputs, CausalViewOf(batch), nullptr);
  const auto scores = [this, texts = batch.inputs.size(0)](const at::Tensor& x) {
    return Scores(x, lm_head_).view({texts, -1, vocab_size_});
  };
  stages.push_back({{lm_head_module_}, scores});
  return stages;
}

void CausalModel::CheckTargets(const Batch& batch) const {
  const std::optional<int64_t>& largest = batch.on_host.largest_target;
  TORCH_CHECK_INDEX(!largest || *largest < vocab_size_, "Target ", largest.value_or(0),
                    " is out of bounds for ", vocab_size_, " classes.");
}

at::Tensor CausalModel::LossFrom(const at::Tensor& outputs, const Batch& batch) {
  CheckTargets(batch);
  return CrossEntropy(outputs.view({-1, vocab_size_}), batch.targets.reshape({-1}),
                      batch.predictions, Smoothing());
}

at::Tensor CausalModel::Loss(const Batch& batch) {
  CheckTargets(batch);
  const auto stages = HiddenStages(batch.inputs, CausalViewOf(batch), nullptr);
  const at::Tensor hidden = Walk(stages, batch.inputs);
  const at::Tensor targets = batch.targets.reshape({-1});
  if (axis() != nullptr) {
    return axis()->LinearCrossEntropy(hidden, lm_head_.weight, vocab_size_, targets, Smoothing());
  }
  // A weight tied to the embedding may be on the embedding's device.
  return LinearCrossEntropy(hidden, lm_head_.weight.to(hidden.device()), targets, Smoothing());
}

at::Tensor CausalModel::NextScores(const at::Tensor& inputs, KeyValueCache& cache) {
  const at::Tensor hidden = Walk(HiddenStages(inputs, {}, &cache), inputs);
  cache.Advance(inputs.size(1));
  return Scores(LastTokenOfEach(hidden, inputs.size(0)), lm_head_);
}

}  // namespace ddprun::trainer
