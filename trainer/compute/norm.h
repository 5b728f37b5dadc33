// The 2-norm of gradients. Its bits depend only on the gradients, not on threads, memory layout or
// the distribution over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "trainer/compute/device.h"

namespace ddprun::trainer {

// Number of elements whose squares are summed together. If parts of a tensor begin at multiples of
// it, the parts have the same sums as the whole tensor.
constexpr int64_t kNormBlock = 4096;
inline int64_t NormBlocksOf(int64_t elements) {
  return (elements + kNormBlock - 1) / kNormBlock;
}

// Returns the sums of squares, in double, of blocks of kNormBlock elements, in order; a tensor's
// last block may be shorter. Tensors are dense, of any dtype and device, which is waited for.
std::vector<double> SquaresByBlock(std::span<const at::Tensor> tensors);

// Returns SquaresByBlock() as a tensor on the tensors' device, by ATen's operators and without
// waiting. REQUIRES: at least one tensor.
at::Tensor SquaresByBlockOnDevice(std::span<const at::Tensor> tensors);

// Returns the square of the norm over all tensors, the sum of SquaresByBlock(); 0 for no tensors.
// They are dense and on one device. Does not wait for it. On CUDA, where one kernel takes many
// tensors and not blocks, the last bits may differ from that sum.
DeviceScalar SquaresOf(std::span<const at::Tensor> tensors);

}  // namespace ddprun::trainer
