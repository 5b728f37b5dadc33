// The 2-norm of gradients, whose bits follow from the gradients alone: not from threads, nor from
// how they are laid out in memory or shared out.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "trainer/compute/device.h"

namespace ddprun::trainer {

// Elements of a tensor whose squares are summed together. Who holds a part of a tensor has the same
// sums as who holds all of it, where parts begin at multiples of this.
constexpr int64_t kNormBlock = 4096;
inline int64_t NormBlocksOf(int64_t elements) {
  return (elements + kNormBlock - 1) / kNormBlock;
}

// The sums of squares, in double, of blocks of kNormBlock elements, in the order of the tensors and
// of their elements; a tensor's last block may be shorter. Dense, of any dtype and device, which is
// waited for. Any thread.
std::vector<double> SquaresByBlock(std::span<const at::Tensor> tensors);

// The same by ATen's operators, as one tensor on the device of these, which is not waited for.
// REQUIRES: at least one tensor.
at::Tensor SquaresByBlockThere(std::span<const at::Tensor> tensors);

// The sum of those sums, on the CPU added one by one; 0 for none. Dense, of one device, which is
// not waited for. Its root is the norm over all elements of all tensors.
DeviceScalar SquaresOf(std::span<const at::Tensor> tensors);

}  // namespace ddprun::trainer
