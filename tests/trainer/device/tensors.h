// Tensors of the device, as its kernels, LibTorch's shape functions and the race detector see them.
#pragma once

#include <ATen/core/Tensor.h>

#include "tests/trainer/device/stream.h"

namespace ddprun::simulated {

inline bool IsOnDevice(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone();
}

at::Tensor NewTensor(c10::Device device,
                     c10::IntArrayRef sizes,
                     c10::IntArrayRef strides,
                     c10::ScalarType type);
// Adds what `tensor` touches to `uses`.
void AddUse(const at::Tensor& tensor, bool writes, std::vector<Use>* uses);

// A tensor of the same sizes, strides and memory as `tensor`, over another storage.
at::Tensor Like(const at::Tensor& tensor, c10::Storage storage, c10::DispatchKey key);
// A storage without memory, for shapes; and one of the CPU, over the same memory, which does not
// keep it alive: as kernels on a real device do not.
c10::Storage WithoutMemory(const c10::Storage& storage);
c10::Storage OnHost(const c10::Storage& storage);
// As a tensor of the CPU: for kernels.
at::Tensor OnHost(const at::Tensor& tensor);

void ResizeStorage(const c10::Storage& storage, size_t bytes);
// Keeps what is there, as resize_.
void Resize(const at::Tensor& tensor,
            c10::IntArrayRef sizes,
            c10::OptionalIntArrayRef strides = std::nullopt);

}  // namespace ddprun::simulated
