// What the models of the next token share, whatever their blocks are.
#pragma once

#include <cstdint>

#include "trainer/models/model.h"

namespace ddprun::trainer {

// Batches: inputs, targets and attention_mask int64 [B, L]; targets of -100 do not count.
// B batch, L length, N = B * L, C width, V vocabulary.
class CausalModel : public LanguageModel {
 public:
  at::Tensor Outputs(const Batch& batch) final;
  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) final;
  at::Tensor Loss(const Batch& batch) final;
  at::Tensor Logits(const at::Tensor& inputs) final;
  at::Tensor NextScores(const at::Tensor& inputs, KeyValueCache& cache) final;
  int64_t vocab_size() const final { return vocab_size_; }

 protected:
  // `label_smoothing`: share of each target that is given to all tokens alike.
  CausalModel(int64_t vocab_size, double label_smoothing)
      : vocab_size_(vocab_size), label_smoothing_(label_smoothing) {}

  // What the last layer makes scores of: [B, L] -> [N, C]. The mask is that of CausalMask
  // (layers.h). The inputs follow the tokens of the cache, where there is one, and are added to it.
  virtual at::Tensor Hidden(const at::Tensor& inputs,
                            const at::Tensor& mask,
                            KeyValueCache* cache) const = 0;

  at::Tensor lm_head_;  // [V, C], for the models to set: the last layer, or the embedding

 private:
  at::Tensor Scores(const at::Tensor& inputs, const at::Tensor& mask) const;

  // A loss of evaluation is that of the targets themselves.
  double Smoothing() const { return is_training() ? label_smoothing_ : 0; }

  const int64_t vocab_size_;
  const double label_smoothing_;
};

}  // namespace ddprun::trainer
