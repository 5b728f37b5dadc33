// The values that a part of the run may have changed before it failed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// One thread.
class BeforePart {
 public:
  // Copies the buffers, and what `state` names: its numbers, and its tensors except for those of
  // the model and the optimizer.
  BeforePart(std::vector<at::Tensor> buffers, VisitState state);
  // May be called again and again.
  void PutBack() const;

 private:
  const std::vector<at::Tensor> buffers_;
  const VisitState state_;
  std::vector<at::Tensor> values_;  // of the buffers
  std::vector<at::Tensor> tensors_;
  std::vector<int64_t> numbers_;
};

}  // namespace ddprun::trainer
