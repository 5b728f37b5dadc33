// The kernel's log of processes that it killed because memory ran out.
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
  pid_t pid = 0;               // in the first pid namespace, which is not a container's
  std::string name = {};       // of the process, at most 15 bytes
  bool cgroup_limit = false;   // true: a cgroup was full; false: the machine was
  int64_t resident_bytes = 0;  // the memory that it held; 0 means unknown
};

// Parses a record of /dev/kmsg: "6,1234,5678901,-;Memory cgroup out of memory: Killed process 812".
// Returns nullopt if the record is about something else.
std::optional<KernelKill> ParseKernelKill(std::string_view record);

class KernelLog {
 public:
  // Begins at the log's end. ReadKills() stays empty if the log is unreadable
  // (kernel.dmesg_restrict), or if this process runs in a container, where pids differ.
  KernelLog();

  // Returns the kills since the constructor or the last call.
  std::vector<KernelKill> ReadKills();

 private:
  UniqueFd fd_;
};

}  // namespace ddprun::launcher
