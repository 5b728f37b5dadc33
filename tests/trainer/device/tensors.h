// Views of a device's tensors for its kernels, LibTorch's shape functions and the race detector.
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
// Adds the memory of `tensor` to `uses`.
void AddUse(const at::Tensor& tensor, bool writes, std::vector<Use>* uses);

// Returns a tensor with the sizes and strides of `tensor` over another storage.
at::Tensor Like(const at::Tensor& tensor, c10::Storage storage, c10::DispatchKey key);
// Return a storage without memory, for shapes; and a CPU's storage over the same memory, which does
// not keep the memory alive, as kernels on a real device do not.
c10::Storage WithoutMemory(const c10::Storage& storage);
c10::Storage OnHost(const c10::Storage& storage);
// Returns a CPU tensor over the same memory, for kernels.
at::Tensor OnHost(const at::Tensor& tensor);

void ResizeStorage(const c10::Storage& storage, size_t bytes);
// Resizes and keeps the content, as resize_ does.
void Resize(const at::Tensor& tensor,
            c10::IntArrayRef sizes,
            c10::OptionalIntArrayRef strides = std::nullopt);

}  // namespace ddprun::simulated
