#include "trainer/checkpoint/shard_copy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "base/failure.h"
#include "trainer/checkpoint/index.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kChunkBytes = size_t{4} << 20;
// LibTorch copies fewer elements than these (at::internal::GRAIN_SIZE) on one thread.
constexpr int64_t kSerialElements = 32768;

// Returns the memory that a tensor reads, or a larger range.
std::string_view MemoryOf(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) {
    return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
  }
  return {static_cast<const char*>(tensor.storage().data()), tensor.storage().nbytes()};
}

void* MapPages(size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Failure(
        SystemError("taking " + std::to_string(bytes) + " bytes for a copy of the state", errno));
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // a hint
  return memory;
}

bool OnDevice(const at::Tensor& tensor) {
  return !tensor.is_cpu();
}

bool Meet(std::string_view a, std::string_view b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

void HostBuffer::Reserve(size_t bytes, bool of_device) {
  if (bytes <= size_) return;
  Free();
  void* memory = of_device && pinned_.take != nullptr ? pinned_.take(bytes) : nullptr;
  is_pinned_ = memory != nullptr;
  if (!is_pinned_) memory = MapPages(bytes);
  data_ = static_cast<char*>(memory);
  size_ = bytes;
}

void HostBuffer::Free() {
  char* const memory = std::exchange(data_, nullptr);
  const size_t bytes = std::exchange(size_, 0);
  if (memory == nullptr) return;
  if (!is_pinned_) {
    ::munmap(memory, bytes);
  } else if (std::uncaught_exceptions() == 0) {
    // After a failure, freeing may wait forever for another rank's device work. The process first
    // reports the failure.
    pinned_.give_back(memory);
  }
}

void HostBuffer::AllocatePages(const std::atomic<bool>& stop) {
  constexpr size_t kPage = 4096;
  for (size_t at = 0; at < size_ && !stop; at += kPage) data_[at] = 0;
}

ShardCopy::ShardCopy(std::span<const StateTensor> tensors,
                     std::span<const PlannedPiece> pieces,
                     HostBuffer& buffer) {
  std::vector<PlannedPiece> sorted(pieces.begin(), pieces.end());
  std::stable_sort(sorted.begin(), sorted.end(), [&](const PlannedPiece& a, const PlannedPiece& b) {
    return tensors[a.tensor].tensor.element_size() > tensors[b.tensor].tensor.element_size();
  });
  std::vector<at::Tensor> sources;
  for (const PlannedPiece& piece : sorted) {
    const StateTensor& tensor = tensors[piece.tensor];
    sources.push_back(RowsOf(tensor, piece));
    CheckpointPiece place = PlaceOf(tensor, piece);
    items_.push_back({std::move(place.name), tensor.tensor.scalar_type(), std::move(place.shape)});
    bytes_ += sources.back().nbytes();
  }
  const auto on_device = std::ranges::find_if(sources, OnDevice);
  buffer.Reserve(bytes_, on_device != sources.end());
  if (on_device != sources.end()) CopyFromDevice(on_device->device(), sources, buffer.data());
  char* target = buffer.data();
  for (const at::Tensor& source : sources) {
    if (source.is_cpu()) AddChunks(source, target);
    target += source.nbytes();
  }
}

void ShardCopy::CopyFromDevice(c10::Device device,
                               std::span<const at::Tensor> sources,
                               char* target) {
  const c10::impl::VirtualGuardImpl streams(device.type());
  const c10::Stream copies = streams.getStreamFromGlobalPool(device);
  c10::Event complete(device.type());
  complete.record(streams.getStream(device));
  complete.block(copies);
  const at::NoGradGuard no_grad;
  const c10::StreamGuard guard(copies);
  for (const at::Tensor& source : sources) {
    if (OnDevice(source)) {
      at::from_blob(target, source.sizes(), at::TensorOptions(source.scalar_type()))
          .copy_(source.contiguous(), /*non_blocking=*/true);
      source.record_stream(copies);
    }
    target += source.nbytes();
  }
  copied_.emplace(device.type());
  copied_->record(copies);
}

void ShardCopy::MakeStreamWait() const {
  if (!copied_) return;
  const c10::impl::VirtualGuardImpl streams(copied_->device_type());
  copied_->block(streams.getStream(copied_->device()));
}

void ShardCopy::WaitForDevice() {
  if (!copied_) return;
  // Without the guard, a thread that has used no device would begin with device 0.
  const c10::DeviceGuard guard(copied_->device());
  copied_->synchronize();
}

void ShardCopy::AddChunks(const at::Tensor& tensor, char* target) {
  const std::string_view memory = MemoryOf(tensor);
  if (tensor.is_contiguous()) {
    for (size_t at = 0; at < memory.size(); at += kChunkBytes) {
      const std::string_view part = memory.substr(at, kChunkBytes);
      chunks_.push_back({part, target + at, part.size(), {}});
    }
  } else if (tensor.numel() >= kSerialElements) {
    const int64_t half = tensor.size(0) / 2;
    if (half == 0) return AddChunks(tensor.select(0, 0), target);
    const at::Tensor first = tensor.narrow(0, 0, half);
    AddChunks(first, target);
    AddChunks(tensor.narrow(0, half, tensor.size(0) - half), target + first.nbytes());
  } else {
    chunks_.push_back({memory, target, tensor.nbytes(), tensor});
  }
}

void ShardCopy::CopyChunk(Chunk& chunk, std::unique_lock<std::mutex>& lock) {
  chunk.progress = Progress::kUnderWay;
  lock.unlock();
  std::string error;
  if (!chunk.strided.defined()) {
    std::memcpy(chunk.target, chunk.memory.data(), chunk.bytes);
  } else {
    try {
      const at::NoGradGuard no_grad;
      at::from_blob(chunk.target, chunk.strided.sizes(),
                    at::TensorOptions(chunk.strided.scalar_type()))
          .copy_(chunk.strided);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
  }
  lock.lock();
  if (error_.empty()) error_ = std::move(error);
  chunk.progress = Progress::kDone;
  ++done_;
  changed_.notify_all();
}

void ShardCopy::Finish() {
  std::unique_lock lock(mutex_);
  while (next_ < chunks_.size()) {
    Chunk& chunk = chunks_[next_++];
    if (chunk.progress == Progress::kWaiting) CopyChunk(chunk, lock);
  }
  changed_.wait(lock, [&] { return done_ == chunks_.size(); });
}

void ShardCopy::Finish(std::span<const at::Tensor> tensors) {
  std::vector<std::string_view> wanted;
  for (const at::Tensor& tensor : tensors) wanted.push_back(MemoryOf(tensor));
  std::unique_lock lock(mutex_);
  std::vector<Chunk*> meeting;
  for (Chunk& chunk : chunks_) {
    const auto meets = [&](std::string_view memory) { return Meet(memory, chunk.memory); };
    if (chunk.progress != Progress::kDone && std::ranges::any_of(wanted, meets)) {
      meeting.push_back(&chunk);
    }
  }
  for (Chunk* chunk : meeting) {
    if (chunk->progress == Progress::kWaiting) CopyChunk(*chunk, lock);
  }
  changed_.wait(lock, [&] {
    return std::ranges::all_of(
        meeting, [](const Chunk* chunk) { return chunk->progress == Progress::kDone; });
  });
}

std::string ShardCopy::error() {
  const std::unique_lock lock(mutex_);
  return error_;
}

}  // namespace ddprun::trainer
