#include "base/cgroup_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/env.h"

namespace ddprun {

namespace {

// Version 1 writes "no limit" as a number just below 2^63.
constexpr int64_t kNoLimit = int64_t{1} << 60;

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ReadLimit(const std::string& path) {
  const std::optional<std::string> text = ReadText(path);
  if (!text) return std::nullopt;
  const auto limit = ParseInt(text->substr(0, text->find('\n')));  // "max" means no limit
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

}  // namespace

std::optional<CgroupPath> ParseCgroupPath(std::string_view proc_self_cgroup) {
  std::stringstream lines{std::string(proc_self_cgroup)};
  std::string line;
  std::optional<CgroupPath> found;
  while (std::getline(lines, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers.find(",memory,") != std::string::npos) return CgroupPath{false, path};
    if (line.starts_with("0::")) found = CgroupPath{true, path};
  }
  return found;
}

std::optional<int64_t> ParseOomKills(std::string_view text) {
  std::stringstream words{std::string(text)};
  std::string word;
  while (words >> word) {
    int64_t count = 0;
    if (word == "oom_kill" && words >> count) return count;
  }
  return std::nullopt;
}

std::optional<CgroupMemory> ReadCgroupMemory(const std::string& root) {
  const std::optional<std::string> own = ReadText(root + "/proc/self/cgroup");
  const auto group = own ? ParseCgroupPath(*own) : std::nullopt;
  if (!group) return std::nullopt;
  const std::string mount = root + (group->version_2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
  std::string path = group->path == "/" ? "" : group->path;
  const auto counters =
      ReadText(mount + path + (group->version_2 ? "/memory.events" : "/memory.oom_control"));
  const auto kills = counters ? ParseOomKills(*counters) : std::nullopt;
  if (!kills) return std::nullopt;
  CgroupMemory memory{.oom_kills = *kills};
  for (;;) {
    const auto limit =
        ReadLimit(mount + path + (group->version_2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (limit) memory.limit_bytes = std::min(*limit, memory.limit_bytes.value_or(*limit));
    if (path.empty()) return memory;
    path.resize(path.rfind('/'));
  }
}

std::optional<MemoryLimit> ReadMemoryLimit(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string word;
  int64_t kib = 0;
  MemoryLimit limit;
  while (file >> word) {
    if ((word == "MemTotal:" || word == "SwapTotal:") && file >> kib) limit.bytes += kib * 1024;
  }
  if (limit.bytes == 0) return std::nullopt;
  const auto group = ReadCgroupMemory(root);
  if (group && group->limit_bytes && *group->limit_bytes < limit.bytes) {
    return MemoryLimit{*group->limit_bytes, true};
  }
  return limit;
}

}  // namespace ddprun
