// Tensors of a rank that outlive its process: the process that replaces a killed rank finds them.
//
// The memory has two slots. A new version goes into the one that does not have the newest version,
// so that at least one slot is whole whenever the process dies.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {

class SharedRegion;

// One thread. Its memory stays until the last process of the node has closed it.
class KeptMemory {
 public:
  // Uses the kept memory of this rank's place on its node. `forgets`: makes it empty first. Throws
  // Failure.
  KeptMemory(const HostProcessGroup& group, bool forgets);
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  // Copies the values of the tensors, which are on the CPU. Afterwards the memory has `version` and
  // the newest version before it. A kept version that is not older counts as failed, and is
  // replaced. version > 0. Throws Failure if there is no memory.
  void Keep(int64_t version, std::span<const at::Tensor> tensors);
  // Copies the newest kept version up to `version` into the tensors. They have the sizes and types
  // of the kept ones, in the same order. Throws Failure if there is no such version.
  void TakeBack(int64_t version, std::span<const at::Tensor> tensors);

 private:
  struct Page;
  struct Slot {
    std::byte* data = nullptr;
    size_t bytes = 0;  // mapped
  };
  size_t NewestUpTo(int64_t version) const;
  std::byte* MapSlot(size_t slot, size_t bytes);

  const std::shared_ptr<SharedRegion> region_;
  const int rank_;  // on the node
  Page* page_;
  std::array<Slot, 2> slots_;
};

}  // namespace ddprun::trainer
