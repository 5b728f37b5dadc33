// How much memory there is, and what the memory cgroup of this process has counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

struct CgroupMemory {
  int64_t oom_kills = 0;                    // processes that the kernel killed in it, ever
  std::optional<int64_t> limit_bytes = {};  // the smallest of it and the groups above it
};

// A cgroup's folder and the top of its hierarchy, relative to the mount; version 1 has another
// mount point and other file names.
struct CgroupPath {
  bool version_2 = true;
  std::string path;  // "/user.slice/job"
};

// /proc/self/cgroup: the memory controller's group, of version 1 if that has the controller.
std::optional<CgroupPath> ParseCgroupPath(std::string_view proc_self_cgroup);

// "oom_kill 3" among the lines of memory.events (version 2) or memory.oom_control (version 1).
std::optional<int64_t> ParseOomKills(std::string_view text);

// nullopt where there is no such cgroup or it cannot be read. `root` stands before /proc and /sys.
std::optional<CgroupMemory> ReadCgroupMemory(const std::string& root = "");

// What all processes of this machine, or of this process's cgroup where that has less, can hold.
struct MemoryLimit {
  int64_t bytes = 0;
  bool of_cgroup = false;
};

// nullopt where /proc/meminfo cannot be read. Swap counts.
std::optional<MemoryLimit> ReadMemoryLimit(const std::string& root = "");

}  // namespace ddprun
