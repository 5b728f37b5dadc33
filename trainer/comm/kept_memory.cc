#include "trainer/comm/kept_memory.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/failure.h"
#include "trainer/comm/host_process_group_core.h"

namespace ddprun::trainer {

// The first page of the memory. Zeros are its valid first state.
struct KeptMemory::Page {
  struct SlotState {
    std::atomic<int64_t> version;  // 0: empty, or not whole
    std::atomic<uint64_t> bytes;
  };
  std::array<SlotState, 2> slots;
};

namespace {

constexpr size_t kHalfBytes = kKeptBytes / 2;
constexpr size_t kAlignment = 64;

// Calls use(offset, tensor) for each tensor, with its place in the slot. Returns the slot's bytes.
template <typename Use>
size_t ForEachPlace(std::span<const at::Tensor> tensors, const Use& use) {
  size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    use(bytes, tensor);
    bytes += (tensor.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  return bytes;
}

size_t BytesOf(std::span<const at::Tensor> tensors) {
  return ForEachPlace(tensors, [](size_t, const at::Tensor&) {});
}

at::Tensor At(std::byte* data, const at::Tensor& like) {
  return at::from_blob(data, like.sizes(), like.options().requires_grad(false));
}

}  // namespace

KeptMemory::KeptMemory(const HostProcessGroup& group, bool forgets)
    : region_(group.core_->region), rank_(group.core_->local_rank()) {
  static_assert(sizeof(Page) <= kPageBytes);
  page_ = reinterpret_cast<Page*>(ValueOrThrow(region_->MapKept(rank_, 0, kPageBytes)));
  if (!forgets) return;
  for (Page::SlotState& slot : page_->slots) slot.version = 0;
}

KeptMemory::~KeptMemory() {
  SharedRegion::Unmap(reinterpret_cast<std::byte*>(page_), kPageBytes);
  for (const Slot& slot : slots_) {
    if (slot.data != nullptr) SharedRegion::Unmap(slot.data, slot.bytes);
  }
}

// Returns the slot with the newest version up to this one; any slot if there is none. A later
// version has failed, and counts as empty.
size_t KeptMemory::NewestUpTo(int64_t version) const {
  const auto age = [&](size_t slot) {
    const int64_t kept = page_->slots[slot].version;
    return kept <= version ? kept : 0;
  };
  return age(0) >= age(1) ? 0 : 1;
}

std::byte* KeptMemory::MapSlot(size_t index, size_t bytes) {
  Slot& slot = slots_[index];
  const size_t pages = (std::max<size_t>(bytes, 1) + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (pages <= slot.bytes) return slot.data;
  if (pages > kHalfBytes - kPageBytes) {
    throw Failure(Error{.title = "TOO MUCH STATE TO KEEP",
                        .where = "run.recovery \"memory\"",
                        .what = "This rank alone has " + std::to_string(bytes >> 30) +
                                " GiB of state; " + std::to_string(kHalfBytes >> 30) +
                                " GiB can be kept.",
                        .hint = "Use more ranks, or set run.recovery to \"none\".",
                        .page = "too-much-state-to-keep"});
  }
  if (slot.data != nullptr) SharedRegion::Unmap(slot.data, slot.bytes);
  slot = {};
  slot.data =
      ValueOrThrow(region_->MapKept(rank_, kPageBytes + index * (kHalfBytes - kPageBytes), pages));
  slot.bytes = pages;
  return slot.data;
}

void KeptMemory::Keep(int64_t version, std::span<const at::Tensor> tensors) {
  DDPRUN_CHECK(version > 0);
  auto& states = page_->slots;
  const size_t slot = 1 - NewestUpTo(version - 1);
  states[slot].version = 0;
  std::byte* const data = MapSlot(slot, BytesOf(tensors));
  states[slot].bytes = ForEachPlace(tensors, [&](size_t offset, const at::Tensor& tensor) {
    if (tensor.numel() > 0) At(data + offset, tensor).copy_(tensor);
  });
  states[slot].version = version;
}

void KeptMemory::TakeBack(int64_t version, std::span<const at::Tensor> tensors) {
  const auto& states = page_->slots;
  const size_t slot = NewestUpTo(version);
  const int64_t found = states[slot].version;
  const size_t bytes = BytesOf(tensors);
  if (found == 0 || found > version || states[slot].bytes != bytes) {
    throw Failure(Error{
        .title = "NO STATE WAS KEPT",
        .where = "run.recovery \"memory\"",
        .what = "The memory of the lost rank should have the state after part " +
                std::to_string(version) + " of the run, with " + std::to_string(bytes) +
                " bytes. It has versions " + std::to_string(states[0].version) + " and " +
                std::to_string(states[1].version) + ", with " + std::to_string(states[0].bytes) +
                " and " + std::to_string(states[1].bytes) + " bytes.",
        .hint = "This is a defect of ddprun: please report it. The run goes on from "
                "its newest checkpoint,\nif restarts are left (--max_restarts).",
        .page = "no-state-was-kept"});
  }
  std::byte* const data = MapSlot(slot, bytes);
  ForEachPlace(tensors, [&](size_t offset, const at::Tensor& tensor) {
    if (tensor.numel() > 0) tensor.copy_(At(data + offset, tensor));
  });
}

}  // namespace ddprun::trainer
