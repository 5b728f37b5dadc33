// What the models of the next token share, whatever their blocks are.
#pragma once

#include <cstdint>

#include "trainer/models/language_model.h"

namespace ddprun::trainer {

// Batches: inputs, targets and attention_mask int64 [B, L]; targets of -100 do not count.
// B batch, L length, N = B * L, C width, V vocabulary.
class CausalModel : public LanguageModel {
 public:
  std::vector<Stage> Stages(const Batch& batch) const final;
  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) final;
  at::Tensor Loss(const Batch& batch) final;
  at::Tensor Logits(const at::Tensor& inputs) final {
    return Outputs({.inputs = inputs, .targets = {}});
  }
  at::Tensor NextScores(const at::Tensor& inputs, KeyValueCache& cache) final;
  int64_t vocab_size() const final { return vocab_size_; }

 protected:
  explicit CausalModel(int64_t vocab_size) : vocab_size_(vocab_size) {}

  // What the last layer makes scores of: inputs [B, L] -> [N, C]. The mask is that of CausalMask
  // (layers.h). The inputs follow the tokens of the cache, where there is one, and are added to it.
  virtual std::vector<Stage> HiddenStages(const at::Tensor& inputs,
                                          const at::Tensor& mask,
                                          KeyValueCache* cache) const = 0;

  // For the models to set: the last layer, and the module that holds it; or the embedding's.
  WordVectors lm_head_;
  std::string lm_head_module_;

 private:
  // A loss of evaluation is that of the targets themselves.
  double Smoothing() const { return is_training() ? loss_.label_smoothing : 0; }
  // Throws what the CPU's kernels throw, where the device's would say nothing.
  void CheckTargets(const Batch& batch) const;

  const int64_t vocab_size_;
};

}  // namespace ddprun::trainer
