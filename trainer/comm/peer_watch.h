// Notices without a launcher that other ranks of this host have ended.
#pragma once

#include <sys/types.h>

#include <vector>

#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {

struct PeerWatch {
  // From now on, operations of `group` that wait for a rank which has ended fail with
  // Code::kRankLost. `pids`: the process of each rank; those on other hosts are not watched. One
  // thread of this process watches all groups. Does nothing if the kernel has no pidfd_open (before
  // 5.3).
  static void Watch(const HostProcessGroup& group, const std::vector<pid_t>& pids);
};

}  // namespace ddprun::trainer
