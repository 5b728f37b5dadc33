// Random vectors, bit for bit equal to those of this Python data set (torch 2.11):
//   torch.manual_seed(seed)
//   data = [(torch.randn(input_size), torch.randn(target_size)) for _ in range(num_samples)]
#pragma once

#include <cstdint>

#include "trainer/data/dataset.h"

namespace ddprun::trainer {

struct RandomDatasetOptions {
  int64_t num_samples = 0;
  int64_t input_size = 0;   // values per input
  int64_t target_size = 0;  // values per target
  uint64_t seed = 12345;
};

class RandomDataset final : public Dataset {
 public:
  // Throws Failure unless all three sizes are positive. Does not use the default generator.
  explicit RandomDataset(const RandomDatasetOptions& options);

  int64_t size() const override { return inputs_.size(0); }
  // Returns float32 tensors [B, input_size] and [B, target_size].
  Batch Get(std::span<const int64_t> indices) const override;
  DataShape shape() const override {
    return {.input = {inputs_.size(1)}, .target = {targets_.size(1)}};
  }
  bool in_memory() const override { return true; }

 private:
  at::Tensor inputs_;   // [num_samples, input_size]
  at::Tensor targets_;  // [num_samples, target_size]
};

}  // namespace ddprun::trainer
