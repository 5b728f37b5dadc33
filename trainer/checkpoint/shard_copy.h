// One rank's part of the state, copied while its owners leave it alone.
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

// Memory that is used again for every copy. It grows when it has to.
class HostBuffer {
 public:
  explicit HostBuffer(const PinnedMemory& pinned = {}) : pinned_(pinned) {}
  ~HostBuffer() { Free(); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  // Throws Failure where there is no such memory. For copies from a device it is pinned, if there
  // is so much of that.
  void Reserve(size_t bytes, bool of_device);
  // Has the system give the pages now, which costs more than to fill them later; until `stop`.
  void AllocatePages(const std::atomic<bool>& stop);
  char* data() { return data_; }

 private:
  void Free();

  const PinnedMemory pinned_;
  char* data_ = nullptr;
  size_t size_ = 0;
  bool is_pinned_ = false;
};

// Any thread may call any method. The tensors have to live as long as this does; they are on the
// CPU or on one device.
class ShardCopy {
 public:
  // A piece's bytes stand in the buffer as they will in the file. What is on a device is copied
  // from now on, behind the current stream's work, on a stream of its own.
  ShardCopy(std::span<const StateTensor> tensors,
            std::span<const PlannedPiece> pieces,
            HostBuffer& buffer);

  // In the order of the bytes.
  const std::vector<SafetensorsItem>& items() const { return items_; }
  size_t bytes() const { return bytes_; }

  // Copies what no other thread is copying, until all of the CPU's is copied.
  void Finish();
  // The same for what shares memory with these tensors.
  void Finish(std::span<const at::Tensor> tensors);
  // Has the current stream's later work come after the device's copies; the host waits for nothing.
  void MakeStreamWait() const;
  // Waits for the device's copies. Throws the device's errors.
  void WaitForDevice();
  // After Finish(): what a tensor's copy() threw; empty: nothing.
  std::string error();

 private:
  enum class Progress { kWaiting, kUnderWay, kDone };
  // Of a piece: so much that threads share the work, and that none waits for long.
  struct Chunk {
    std::string_view memory;  // that it is read from
    char* target;
    size_t bytes;
    at::Tensor strided;  // not defined where the bytes can be copied as they lie
    Progress progress = Progress::kWaiting;
  };

  void CopyFromDevice(c10::Device device, std::span<const at::Tensor> sources, char* target);
  void AddChunks(const at::Tensor& tensor, char* target);
  void CopyChunk(Chunk& chunk, std::unique_lock<std::mutex>& lock);

  std::vector<SafetensorsItem> items_;
  size_t bytes_ = 0;
  std::optional<c10::Event> copied_;  // all that is on a device

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Chunk> chunks_;
  size_t next_ = 0;  // all chunks before have been begun
  size_t done_ = 0;
  std::string error_;
};

}  // namespace ddprun::trainer
