#include "launcher/report/out_of_memory.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace ddprun::launcher {

namespace {

std::string Size(int64_t bytes) {
  constexpr double kMib = 1024.0 * 1024.0;
  const double mib = static_cast<double>(bytes) / kMib;
  char text[32];
  if (mib < 1024) {
    std::snprintf(text, sizeof text, "%.0f MiB", mib);
  } else {
    std::snprintf(text, sizeof text, "%.1f GiB", mib / 1024);
  }
  return text;
}

// Returns "its cgroup (limit 2.0 GiB)" or "the machine".
std::string Place(bool cgroup, const MemoryEvidence& evidence) {
  if (!cgroup) return "the machine";
  const std::string limit =
      evidence.limit_bytes ? " (limit " + Size(*evidence.limit_bytes) + ")" : "";
  return "its cgroup" + limit;
}

}  // namespace

std::optional<OutOfMemory> ExplainOutOfMemory(const WorkerRecord& worker,
                                              const MemoryEvidence& evidence) {
  const auto* signaled = worker.exit ? std::get_if<Signaled>(&*worker.exit) : nullptr;
  const bool killed = signaled != nullptr && signaled->signal == SIGKILL;
  const auto named = std::find_if(evidence.kills.begin(), evidence.kills.end(),
                                  [&](const KernelKill& k) { return k.pid == worker.pid; });
  if (killed && named != evidence.kills.end()) {
    const std::string held =
        named->resident_bytes > 0 ? "; it held " + Size(named->resident_bytes) : "";
    return OutOfMemory{.certain = true,
                       .what = "the kernel killed it because " +
                               Place(named->cgroup_limit, evidence) + " ran out of memory" + held};
  }
  if (evidence.cgroup_kills <= 0) return std::nullopt;
  if (killed && !worker.told_to_stop) {
    return OutOfMemory{.what =
                           "most likely the kernel killed it because memory ran out: it has "
                           "killed " +
                           CountText(evidence.cgroup_kills, "process", "processes") + " of " +
                           Place(true, evidence) + " meanwhile"};
  }
  if (worker.told_to_stop) return std::nullopt;
  return OutOfMemory{.what = "meanwhile the kernel killed " +
                             CountText(evidence.cgroup_kills, "process", "processes") + " of " +
                             Place(true, evidence) +
                             " because memory ran out, perhaps a child of this worker"};
}

MemoryEvidence MemoryWatch::ReadEvidence() {
  for (KernelKill& kill : log_.ReadKills()) kills_.push_back(std::move(kill));
  MemoryEvidence evidence{.kills = kills_};
  const std::optional<CgroupMemory> now = ReadCgroupMemory();
  if (now && before_) evidence.cgroup_kills = now->oom_kills - before_->oom_kills;
  if (now) evidence.limit_bytes = now->limit_bytes;
  return evidence;
}

}  // namespace ddprun::launcher
