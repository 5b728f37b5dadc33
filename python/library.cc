// Registers torch.ops.ddprun.attach and settle, which ddprun/torch/__init__.py calls. No header of
// Python is needed, so one library fits every Python.
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "python/torch_backend.h"
#include "trainer/comm/operation_queue.h"
#include "trainer/comm/store_start.h"

namespace ddprun::python {

namespace {

// Makes the backend of `group` from its store. `ranks`: the numbers of its ranks in the job.
void Attach(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
            const std::vector<int64_t>& ranks,
            int64_t attempt,
            int64_t timeout_ms) {
  const trainer::StoreStart start{.rank = group->getRank(),
                                  .size = group->getSize(),
                                  .names = {ranks.begin(), ranks.end()},
                                  .attempt = static_cast<int>(attempt),
                                  .timeout = std::chrono::milliseconds(timeout_ms)};
  const auto backend = Translated(
      [&] { return c10::make_intrusive<TorchBackend>(StartFromStore(*group->getStore(), start)); });
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::intrusive_ptr<c10d::Backend>(backend));
}

}  // namespace

TORCH_LIBRARY(ddprun, library) {
  library.def(
      "attach(__torch__.torch.classes.c10d.ProcessGroup group, int[] ranks, int attempt, "
      "int timeout_ms) -> ()",
      // NOLINTNEXTLINE(performance-unnecessary-value-param): torch passes lists by value
      [](const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::vector<int64_t> ranks,
         int64_t attempt, int64_t timeout_ms) { Attach(group, ranks, attempt, timeout_ms); });
  library.def("settle(int limit_ms) -> ()", [](int64_t limit_ms) {
    trainer::OperationQueue::Settle(std::chrono::milliseconds(limit_ms));
  });
}

}  // namespace ddprun::python
