#include "trainer/compute/norm.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "trainer/compute/kernels.h"

namespace ddprun::trainer {

namespace {

constexpr int64_t kGrain = 16;  // least number of blocks of a thread

bool HasKernel(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return IsForHostKernels(tensor) &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
}

double SumOfSquaresAt(const void* data, at::ScalarType type, int64_t first, int64_t count) {
  if (type == at::kFloat) return SumOfSquares(static_cast<const float*>(data) + first, count);
  if (type == at::kHalf) return SumOfSquares(static_cast<const at::Half*>(data) + first, count);
  return SumOfSquares(static_cast<const at::BFloat16*>(data) + first, count);
}

// Adds one or two tensors of norms. LibTorch decides the order of sums within a block.
void AddBlockNorms(const at::Tensor& tensor, std::vector<at::Tensor>& norms) {
  const at::Tensor flat = tensor.reshape({-1});
  const auto add = [&norms](const at::Tensor& rows) {
    norms.push_back(at::linalg_vector_norm(rows, 2, {1}, false, at::kDouble));
  };
  const int64_t whole = flat.numel() / kNormBlock * kNormBlock;
  if (whole > 0) add(flat.narrow(0, 0, whole).view({-1, kNormBlock}));
  if (whole < flat.numel()) add(flat.narrow(0, whole, flat.numel() - whole).unsqueeze(0));
}

}  // namespace

at::Tensor SquaresByBlockOnDevice(std::span<const at::Tensor> tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& tensor : tensors) AddBlockNorms(tensor, norms);
  if (norms.empty()) return at::empty({0}, tensors[0].options().dtype(at::kDouble));
  return at::cat(norms).square_();
}

std::vector<double> SquaresByBlock(std::span<const at::Tensor> tensors) {
  struct Part {
    at::Tensor flat;
    int64_t begin;  // its first block
  };
  const at::NoGradGuard no_grad;
  std::vector<Part> parts;
  parts.reserve(tensors.size());
  int64_t blocks = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    parts.push_back({tensor.is_contiguous() ? tensor : tensor.contiguous(), blocks});
    blocks += NormBlocksOf(tensor.numel());
  }
  std::vector<double> sums(static_cast<size_t>(blocks));
  at::parallel_for(0, blocks, kGrain, [&](int64_t begin, int64_t end) {
    auto part = std::upper_bound(parts.begin(), parts.end(), begin,
                                 [](int64_t block, const Part& p) { return block < p.begin; }) -
                1;
    for (int64_t block = begin; block < end; ++block) {
      while (part + 1 != parts.end() && (part + 1)->begin <= block) ++part;
      if (!HasKernel(part->flat)) continue;
      const int64_t first = (block - part->begin) * kNormBlock;
      sums[static_cast<size_t>(block)] =
          SumOfSquaresAt(part->flat.const_data_ptr(), part->flat.scalar_type(), first,
                         std::min(kNormBlock, part->flat.numel() - first));
    }
  });
  for (const Part& part : parts) {
    if (HasKernel(part.flat)) continue;
    const at::Tensor squares = SquaresByBlockOnDevice({{part.flat}}).cpu();
    std::copy_n(squares.const_data_ptr<double>(), squares.numel(), sums.begin() + part.begin);
  }
  return sums;
}

DeviceScalar SquaresOf(std::span<const at::Tensor> tensors) {
  const auto is_full = [](const at::Tensor& tensor) { return tensor.numel() > 0; };
  const auto first = std::ranges::find_if(tensors, is_full);
  if (first != tensors.end() && !IsForHostKernels(*first)) {
    const at::NoGradGuard no_grad;
    if (!first->is_cuda()) return DeviceScalar(SquaresByBlockOnDevice(tensors).sum());
    std::vector<at::Tensor> full;
    std::ranges::copy_if(tensors, std::back_inserter(full), is_full);
    return DeviceScalar(at::stack(at::_foreach_norm(full, 2, at::kDouble)).square_().sum());
  }
  const std::vector<double> sums = SquaresByBlock(tensors);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace ddprun::trainer
