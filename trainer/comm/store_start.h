// Starts a HostProcessGroup whose ranks share nothing but a store of c10d.
#pragma once

#include <chrono>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {

struct StoreStart {
  int rank = 0;
  int size = 1;
  std::vector<int> names = {};  // the ranks' numbers in the job
  int attempt = 0;              // equal on all ranks; a new one for each group of this store
  std::chrono::milliseconds timeout{0};
};

// Makes the group. A collective of its ranks. It fails on all ranks if it fails on one, and waits
// at most `timeout` for each of its exchanges. Ranks of one host share memory, and hosts are
// connected by TCP or UCX (which may be loaded then: no fork() afterwards). A rank of this host
// that ends later is noticed at once: operations that wait for it fail (Code::kRankLost). Throws
// Failure.
c10::intrusive_ptr<HostProcessGroup> StartFromStore(c10d::Store& store, const StoreStart& start);

}  // namespace ddprun::trainer
