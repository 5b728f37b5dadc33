// Copies one rank's part of the state, while its owners do not change it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/pinned_memory.h"
#include "trainer/checkpoint/plan.h"
#include "trainer/state/safetensors.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Memory for copies, which all saves reuse. It only grows.
class HostBuffer {
 public:
  explicit HostBuffer(const PinnedMemory& pinned = {}) : pinned_(pinned) {}
  ~HostBuffer() { Free(); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  // Makes the buffer at least `bytes` long. For copies from a device the memory is pinned, if there
  // is enough pinned memory. Throws Failure if there is no memory.
  void Reserve(size_t bytes, bool of_device);
  // Makes the system allocate the pages now, so that later writes are faster. Ends early if `stop`.
  void AllocatePages(const std::atomic<bool>& stop);
  char* data() { return data_; }

 private:
  void Free();

  const PinnedMemory pinned_;
  char* data_ = nullptr;
  size_t size_ = 0;
  bool is_pinned_ = false;
};

// Any thread may call any method. Tensors outlive this object and are on the CPU or on one device.
class ShardCopy {
 public:
  // Puts the bytes of the pieces into the buffer in the order of the file. Begins to copy device
  // tensors on a separate stream, after the current stream's work.
  ShardCopy(std::span<const StateTensor> tensors,
            std::span<const PlannedPiece> pieces,
            HostBuffer& buffer);

  // Returns the pieces in the order of their bytes.
  const std::vector<SafetensorsItem>& items() const { return items_; }
  size_t bytes() const { return bytes_; }

  // Copies CPU chunks until all are copied; other threads may copy some of them.
  void Finish();
  // Copies only the chunks that share memory with these tensors.
  void Finish(std::span<const at::Tensor> tensors);
  // Makes later work of the current stream wait for the device's copies. The host does not wait.
  void MakeStreamWait() const;
  // Waits on the host for the device's copies. Throws the device's errors.
  void WaitForDevice();
  // Returns the first error of a tensor's copy(); "" means none. Call it after Finish().
  std::string error();

 private:
  enum class Progress { kWaiting, kUnderWay, kDone };
  // A part of a piece: small, so that threads divide the work and none waits long.
  struct Chunk {
    std::string_view memory;  // the source, or its range in memory if it is strided
    char* target;
    size_t bytes;
    at::Tensor strided;  // undefined if the bytes can be copied as they are
    Progress progress = Progress::kWaiting;
  };

  void CopyFromDevice(c10::Device device, std::span<const at::Tensor> sources, char* target);
  void AddChunks(const at::Tensor& tensor, char* target);
  void CopyChunk(Chunk& chunk, std::unique_lock<std::mutex>& lock);

  std::vector<SafetensorsItem> items_;
  size_t bytes_ = 0;
  std::optional<c10::Event> copied_;  // after all copies from a device

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Chunk> chunks_;
  size_t next_ = 0;  // all chunks before it have been started
  size_t done_ = 0;
  std::string error_;
};

}  // namespace ddprun::trainer
