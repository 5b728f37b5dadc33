#include "trainer/cuda/row_kernels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

namespace ddprun::trainer {

namespace {

template <typename T>
T* Data(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.data_ptr()) : nullptr;
}

}  // namespace

bool RowKernels::Normalizes(int64_t width) const {
  return width % kernels::kPack == 0 && width <= kWidestNorm;
}

void RowKernels::RowLosses(const RowLossArguments& a) {
  const int64_t rows = a.scores.size(0);
  const int64_t classes = a.scores.size(1);
  const kernels::LossRows one = {.scores = Data<float>(a.scores),
                                 .derivatives = Data<void>(a.derivatives),
                                 .targets = reinterpret_cast<long long*>(Data<int64_t>(a.targets)),
                                 .losses = Data<float>(a.losses),
                                 .rows = rows,
                                 .score_stride = a.scores.stride(0),
                                 .stride = a.derivatives.defined() ? a.derivatives.stride(0) : 0,
                                 .classes = static_cast<int>(classes),
                                 .smoothing = static_cast<float>(a.smoothing)};
  Run(ShapeOfLosses(rows, classes, size_), a.scores.device(), one);
}

void RowKernels::Norm(const NormArguments& a) {
  const int64_t width = a.x.size(-1);
  const int64_t rows = a.x.numel() / width;
  const kernels::NormRows one = {.x = Data<float>(a.x),
                                 .addend = Data<void>(a.addend),
                                 .weight = Data<float>(a.weight),
                                 .bias = Data<float>(a.bias),
                                 .sum = Data<float>(a.sum),
                                 .y = Data<void>(a.y),
                                 .wide_y = Data<float>(a.wide_y),
                                 .mean = Data<float>(a.mean),
                                 .factor = Data<float>(a.factor),
                                 .rows = rows,
                                 .width = static_cast<int>(width),
                                 .epsilon = static_cast<float>(a.epsilon),
                                 .centers = a.centers};
  Run(ShapeOfNorm(rows, width, size_), a.x.device(), one);
}

at::Tensor RowKernels::NormGradients(const NormGradientArguments& a) {
  const int64_t width = a.sum.size(-1);
  const int64_t rows = a.sum.numel() / width;
  const LaunchShape shape = ShapeOfNormGradients(rows, width, size_);
  const at::Tensor parts = at::empty({shape.blocks, 2, width}, a.sum.options());
  const kernels::NormGradients one = {.sum = Data<float>(a.sum),
                                      .of_y = Data<void>(a.of_y),
                                      .of_wide = Data<float>(a.of_wide),
                                      .of_sum = a.of_sum,
                                      .weight = Data<float>(a.weight),
                                      .mean = Data<float>(a.mean),
                                      .factor = Data<float>(a.factor),
                                      .of_x = Data<float>(a.of_x),
                                      .of_addend = Data<void>(a.of_addend),
                                      .parts = Data<float>(parts),
                                      .rows = rows,
                                      .width = static_cast<int>(width),
                                      .centers = a.centers};
  Run(shape, a.sum.device(), one);
  return at::sum(parts, {0});
}

void RowKernels::UseProcessors(int64_t count) {
  size_.processors = count > 0 ? count : own_.processors;
}

}  // namespace ddprun::trainer
