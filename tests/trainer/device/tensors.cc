#include "tests/trainer/device/tensors.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/trainer/device/allocator.h"

namespace ddprun::simulated {

at::Tensor NewTensor(c10::Device device,
                     c10::IntArrayRef sizes,
                     c10::IntArrayRef strides,
                     c10::ScalarType type) {
  const c10::DeviceGuard guard(device);
  return at::detail::empty_strided_generic(
      sizes, strides, &TheAllocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
}

void AddUse(const at::Tensor& tensor, bool writes, std::vector<Use>* uses) {
  if (!IsOnDevice(tensor) || tensor.numel() == 0) return;
  int64_t last = tensor.storage_offset();
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const c10::Storage& storage = tensor.storage();
  auto* const base = static_cast<std::byte*>(const_cast<void*>(storage.data()));
  const auto item = static_cast<int64_t>(tensor.itemsize());
  if ((last + 1) * item > static_cast<int64_t>(storage.nbytes())) {
    throw DeviceError(Doing::Operation() + " uses element " + std::to_string(last) +
                      " of a storage that has " + std::to_string(storage.nbytes()) +
                      " bytes: was it freed by resizing?\n  " + Place().Text());
  }
  uses->push_back({base + tensor.storage_offset() * item, base + (last + 1) * item, writes});
}

at::Tensor Like(const at::Tensor& tensor, c10::Storage storage, c10::DispatchKey key) {
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  c10::TensorImpl* const impl = result.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (tensor.is_conj()) impl->_set_conj(true);
  if (tensor.is_neg()) impl->_set_neg(true);
  return result;
}

c10::Storage WithoutMemory(const c10::Storage& storage) {
  return {c10::Storage::use_byte_size_t(), storage.nbytes(), c10::DataPtr(nullptr, c10::kMeta),
          c10::GetAllocator(c10::kMeta), true};
}

c10::Storage OnHost(const c10::Storage& storage) {
  c10::DataPtr data(ForKernels(storage.data()), c10::kCPU);
  return {c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data),
          c10::GetAllocator(c10::kCPU), true};
}

at::Tensor OnHost(const at::Tensor& tensor) {
  return Like(tensor, OnHost(tensor.storage()), c10::DispatchKey::CPU);
}

void ResizeStorage(const c10::Storage& storage, size_t bytes) {
  const c10::DeviceGuard guard(storage.device());
  const c10::DataPtr old = storage.set_data_ptr(TheAllocator().allocate(bytes));
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) TheAllocator().copy_data(const_cast<void*>(storage.data()), old.get(), kept);
  storage.set_nbytes(bytes);
}

void Resize(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::OptionalIntArrayRef strides) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (strides.has_value()) {
    impl->set_sizes_and_strides(sizes, *strides);
  } else {
    impl->set_sizes_contiguous(sizes);
  }
  const size_t bytes =
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize(),
                                       static_cast<size_t>(tensor.storage_offset()));
  if (tensor.numel() > 0 && bytes > tensor.storage().nbytes()) {
    ResizeStorage(tensor.storage(), bytes);
  }
}

}  // namespace ddprun::simulated
