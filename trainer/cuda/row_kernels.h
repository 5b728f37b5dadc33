// DeviceKernels by the kernels of kernels.cu: gives them the addresses of the tensors.
#pragma once

#include "trainer/compute/device_kernels.h"
#include "trainer/cuda/kernel_arguments.h"
#include "trainer/cuda/kernel_shapes.h"

namespace ddprun::trainer {

class RowKernels : public DeviceKernels {
 public:
  RowKernels(at::ScalarType type, const DeviceSize& size) : type_(type), own_(size), size_(size) {}

  at::ScalarType type() const override { return type_; }
  bool Normalizes(int64_t width) const override;
  void RowLosses(const RowLossArguments& arguments) override;
  void Norm(const NormArguments& arguments) override;
  at::Tensor NormGradients(const NormGradientArguments& arguments) override;
  void UseProcessors(int64_t count) override;

 private:
  // Run a kernel on the current stream of `device`.
  virtual void Run(const LaunchShape& shape, c10::Device device, kernels::LossRows argument) = 0;
  virtual void Run(const LaunchShape& shape, c10::Device device, kernels::NormRows argument) = 0;
  virtual void Run(const LaunchShape& shape,
                   c10::Device device,
                   kernels::NormGradients argument) = 0;

  const at::ScalarType type_;
  const DeviceSize own_;
  DeviceSize size_;
};

}  // namespace ddprun::trainer
