// The memory of this machine, and the limit and counters of this process's memory cgroup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

struct CgroupMemory {
  int64_t oom_kills = 0;  // processes that the kernel has killed in this group since it exists
  std::optional<int64_t> limit_bytes = {};  // smallest limit of this group and its parents
};

// A cgroup's folder. Version 1 has another mount point and other file names than version 2.
struct CgroupPath {
  bool version_2 = true;
  std::string path;  // below the mount point: "/user.slice/job"
};

// Returns the memory controller's group: version 1 if a line names the controller, else version 2.
std::optional<CgroupPath> ParseCgroupPath(std::string_view proc_self_cgroup);

// Finds "oom_kill 3" in memory.events (version 2) or memory.oom_control (version 1).
std::optional<int64_t> ParseOomKills(std::string_view text);

// Returns nullopt if there is no such cgroup or it is unreadable. `root` precedes /proc and /sys.
std::optional<CgroupMemory> ReadCgroupMemory(const std::string& root = "");

// The limit of the whole machine, or of this process's cgroup if that limit is smaller.
struct MemoryLimit {
  int64_t bytes = 0;
  bool of_cgroup = false;
};

// Returns nullopt if /proc/meminfo cannot be read. The machine's limit includes swap.
std::optional<MemoryLimit> ReadMemoryLimit(const std::string& root = "");

}  // namespace ddprun
