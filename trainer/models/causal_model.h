// The common part of models that predict the next token, with any kind of blocks.
#pragma once

#include <cstdint>

#include "trainer/models/language_model.h"
#include "trainer/models/layers.h"

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

  // Returns the stages before the last layer: inputs [B, L] -> [N, C]. If `cache` is not
  // nullptr, the inputs follow its tokens, and the stages add them to it.
  virtual std::vector<Stage> HiddenStages(const at::Tensor& inputs,
                                          const CausalView& view,
                                          KeyValueCache* cache) const = 0;

  // Each model sets both: the last layer, and the name of the module that holds it. With tied
  // weights they are those of the embedding.
  WordVectors lm_head_;
  std::string lm_head_module_;

 private:
  // Returns 0 in evaluation, because its loss is that of the targets themselves.
  double Smoothing() const { return is_training() ? loss_.label_smoothing : 0; }
  // Throws the errors of the CPU's kernels for wrong targets; a device's kernels report none.
  void CheckTargets(const Batch& batch) const;

  const int64_t vocab_size_;
};

}  // namespace ddprun::trainer
