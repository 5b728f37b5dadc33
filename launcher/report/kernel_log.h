// The kernel's own words about processes that it killed because memory ran out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace ddprun::launcher {

struct KernelKill {
  pid_t pid = 0;               // as the first pid namespace counts, which is not a container's
  std::string name = {};       // of the process, at most 15 bytes
  bool cgroup_limit = false;   // a cgroup was full, not the machine
  int64_t resident_bytes = 0;  // its own memory; 0: not said
};

// One record of /dev/kmsg: "6,1234,5678901,-;Memory cgroup out of memory: Killed process 812 ...".
// nullopt when it is about something else.
std::optional<KernelKill> ParseKernelKill(std::string_view record);

class KernelLog {
 public:
  // From now on. Where the log may not be read (kernel.dmesg_restrict), or where its pids would
  // not be ours (in a container), it stays empty.
  KernelLog();

  // Those that have come since the last call.
  std::vector<KernelKill> ReadKills();

 private:
  UniqueFd fd_;
};

}  // namespace ddprun::launcher
