#include "trainer/comm/host_process_group_parts.h"

#include <ATen/ops/from_blob.h>

#include <vector>

#include "base/check.h"
#include "base/failure.h"
#include "trainer/comm/host_process_group_core.h"

namespace ddprun::trainer {

at::Tensor PartsInPlace::Allocate(HostProcessGroup& group,
                                  int64_t size,
                                  at::TensorOptions options) {
  const HostProcessGroupCore& core = *group.core_;
  if (core.placement.nodes() > 1 || core.link_gigabit > 0) return {};
  const auto item = static_cast<int64_t>(options.dtype().itemsize());
  const size_t bytes = static_cast<size_t>(size * item);
  DDPRUN_CHECK(bytes % kPageBytes == 0);
  // Allocates one page more, because blocks of a heap do not begin at pages.
  const at::Tensor room =
      group.allocateTensor(size + static_cast<int64_t>(kPageBytes) / item, options);
  const auto address = reinterpret_cast<uintptr_t>(room.data_ptr());
  const auto before = static_cast<int64_t>((kPageBytes - address % kPageBytes) % kPageBytes);
  return room.narrow(0, before / item, size);
}

at::Tensor PartsInPlace::Map(HostProcessGroup& group, const at::Tensor& own) {
  HostProcessGroupCore& core = *group.core_;
  const size_t bytes = own.nbytes();
  const int64_t offset = core.region->HeapOffset(core.local_rank(), own.data_ptr(), bytes);
  std::vector<int64_t> offsets(static_cast<size_t>(group.getSize()));
  ThrowIfError(core.queue.RunNow([&] {
    return core.group.AllGather(&offset, offsets.data(), sizeof offset,
                                core.Deadline(c10d::kUnsetTimeout));
  }));
  std::byte* const data = ValueOrThrow(core.region->MapContiguously(offsets, bytes));
  const auto unmap = [data, row_bytes = bytes * offsets.size()](void*) {
    SharedRegion::Unmap(data, row_bytes);
  };
  return at::from_blob(data, {own.numel() * group.getSize()}, unmap, own.options());
}

}  // namespace ddprun::trainer
