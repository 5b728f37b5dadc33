// Operations that the fallback cannot do: memory, copies, values for the host, dropout.
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <utility>

#include "tests/trainer/device/allocator.h"
#include "tests/trainer/device/fallback.h"
#include "tests/trainer/device/graph.h"
#include "tests/trainer/device/host_sync.h"
#include "tests/trainer/device/pinned_memory.h"
#include "tests/trainer/device/tensors.h"

namespace ddprun::simulated {
namespace {

at::Tensor Empty(c10::IntArrayRef sizes,
                 std::optional<c10::ScalarType> type,
                 std::optional<c10::Layout>,
                 std::optional<c10::Device> device,
                 std::optional<bool>,
                 std::optional<c10::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(sizes, &TheAllocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

at::Tensor EmptyStrided(c10::IntArrayRef sizes,
                        c10::IntArrayRef strides,
                        std::optional<c10::ScalarType> type,
                        std::optional<c10::Layout>,
                        std::optional<c10::Device> device,
                        std::optional<bool>) {
  return NewTensor(device.value_or(c10::Device(kDeviceType)), sizes, strides,
                   c10::dtype_or_default(type));
}

const at::Tensor& ResizeInPlace(const at::Tensor& self,
                                c10::IntArrayRef sizes,
                                std::optional<c10::MemoryFormat>) {
  Resize(self, sizes);
  return self;
}

at::Tensor& SetStorage(at::Tensor& self,
                       at::Storage source,
                       int64_t offset,
                       c10::IntArrayRef sizes,
                       c10::IntArrayRef strides) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  Resize(self, sizes, strides.empty() ? c10::OptionalIntArrayRef() : strides);
  return self;
}

at::Tensor& SetEmpty(at::Tensor& self) {
  return SetStorage(self, Empty({0}, self.scalar_type(), {}, self.device(), {}, {}).storage(), 0,
                    {0}, {});
}

void RecordStream(at::Tensor& self, c10::Stream stream) {
  TheAllocator().recordStream(self.storage().data_ptr(), stream);
}

// Copies within a device or between two: on the source's stream, ordered with the target's stream.
void CopyOnDevice(const at::Tensor& source, const at::Tensor& target) {
  const c10::Stream stream = CurrentStream(source.device().index());
  const c10::Stream other = CurrentStream(target.device().index());
  Event before, after;
  Record(before, other);
  if (stream != other) LetWait(before, stream);
  std::vector<Use> uses;
  AddUse(source, false, &uses);
  AddUse(target, true, &uses);
  Queue(stream, uses, [from = OnHost(source), to = OnHost(target)] { to.copy_(from); });
  Record(after, stream);
  if (stream != other) LetWait(after, other);
}

void CopyWithHost(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  const bool to_host = !IsOnDevice(target);
  const at::Tensor& host = to_host ? target : source;
  const at::Tensor& own = to_host ? source : target;
  const c10::Stream stream = CurrentStream(own.device().index());
  std::vector<Use> uses;
  AddUse(own, !to_host, &uses);
  // Other copies go through temporary pageable memory.
  const bool plain = source.scalar_type() == target.scalar_type() &&
                     source.sizes() == target.sizes() && host.is_contiguous() &&
                     own.is_contiguous();
  if (non_blocking && plain && IsPinned(host.const_data_ptr())) {
    // The host would not know when a replay writes to its memory.
    if (to_host) RefuseInCapture(own.device().index(), "a copy to the host");
    const bool captured =
        CapturesRead(own.device().index(), static_cast<const std::byte*>(host.const_data_ptr()));
    const auto done = std::make_shared<Signal>();
    const QueuedPtr copy =
        Queue(stream, uses, [from = OnHost(source), to = OnHost(target)] { to.copy_(from); });
    if (captured) return;
    QueueControl(stream, [done] { done->Set(); });
    auto* const begin = static_cast<std::byte*>(const_cast<void*>(host.const_data_ptr()));
    AddPending(copy, {begin, begin + host.nbytes(), to_host}, done);
    return;
  }
  NoteHostSync(to_host ? HostSyncKind::kCopyToHost : HostSyncKind::kCopyToDevice,
               own.device().index());
  QueueAndFinish(stream, uses, [&] {
    // A host tensor stays as it is, because it may be of another kind than plain memory.
    (to_host ? target : OnHost(target)).copy_(to_host ? OnHost(source) : source);
  });
  Synchronize(stream);
}

at::Tensor CopyFrom(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  const Doing doing("aten::copy_");
  if (target.numel() == 0) return target;
  if (IsOnDevice(source) && IsOnDevice(target)) {
    CopyOnDevice(source, target);
  } else {
    CopyWithHost(source, target, non_blocking);
  }
  return target;
}

at::Tensor CopyFromAndResize(const at::Tensor& source, const at::Tensor& target) {
  target.resize_(source.sizes());
  return CopyFrom(source, target, false);
}

c10::Scalar Item(const at::Tensor& self) {
  const Doing doing("aten::item");
  NoteHostSync(HostSyncKind::kItem, self.device().index());
  const c10::Stream stream = CurrentStream(self.device().index());
  std::vector<Use> uses;
  AddUse(self, false, &uses);
  c10::Scalar value;
  QueueAndFinish(stream, uses, [&] { value = OnHost(self).item(); });
  Synchronize(stream);
  return value;
}

// Dropout by the CPU's formula, with the same bits. The mask has the factors of the inputs.
std::tuple<at::Tensor, at::Tensor> Dropout(const at::Tensor& input,
                                           double p,
                                           std::optional<bool> train) {
  at::Tensor noise = at::empty_like(input);
  if (train.value_or(true)) {
    noise.bernoulli_(1 - p).div_(1 - p);
  } else {
    noise.fill_(1);
  }
  return {input * noise, noise};
}

at::Tensor DropoutBackward(const at::Tensor& gradient, const at::Tensor& noise, double) {
  return gradient * noise;
}

// Chooses attention in plain operations.
int64_t ChooseAttention(const at::Tensor&,
                        const at::Tensor&,
                        const at::Tensor&,
                        const std::optional<at::Tensor>&,
                        double,
                        bool,
                        std::optional<double>,
                        bool) {
  return 0;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback>());
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &Empty);
  m.impl("empty_strided", &EmptyStrided);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("resize_", &ResizeInPlace);
  m.impl("set_", &SetEmpty);
  m.impl("set_.source_Storage", &at::native::set_);
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("set_.source_Storage_storage_offset", &SetStorage);
  m.impl("record_stream", &RecordStream);
  m.impl("_copy_from", &CopyFrom);
  m.impl("_copy_from_and_resize", &CopyFromAndResize);
  m.impl("_local_scalar_dense", &Item);
  m.impl("native_dropout", &Dropout);
  m.impl("native_dropout_backward", &DropoutBackward);
  m.impl("_fused_sdp_choice", &ChooseAttention);
  // These operations also have a kernel for all devices, which would win over the fallback, but has
  // other bits than the CPU's.
  for (const char* name :
       {"native_layer_norm", "native_group_norm", "addr", "_stack", "any.dims", "all.dims",
        "linalg__powsum", "silu_backward", "convolution", "convolution_backward"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&Fallback>());
  }
}

}  // namespace
}  // namespace ddprun::simulated
