#include "launcher/report/kernel_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace ddprun::launcher {

namespace {

// PROC_PID_INIT_INO of linux/proc_ns.h: the first pid namespace's inode.
constexpr ino_t kFirstPidNamespace = 0xEFFFFFFC;
// The longest record of the kernel (CONSOLE_EXT_LOG_MAX).
constexpr size_t kMaxRecordBytes = 8192;

// Returns the number at the beginning of `text`, or 0.
int64_t LeadingNumber(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string_view After(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == std::string_view::npos ? "" : text.substr(at + mark.size());
}

bool InFirstPidNamespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == kFirstPidNamespace;
}

}  // namespace

std::optional<KernelKill> ParseKernelKill(std::string_view record) {
  std::string_view text = After(record, ";");
  text = text.substr(0, text.find('\n'));
  const std::string_view victim = After(text, "Killed process ");
  KernelKill kill;
  kill.pid = static_cast<pid_t>(LeadingNumber(victim));
  const size_t open = victim.find('(');
  const size_t close = victim.find(") total-vm", open);
  if (kill.pid <= 0 || close == std::string_view::npos) return std::nullopt;
  kill.name = victim.substr(open + 1, close - open - 1);
  kill.cgroup_limit = text.starts_with("Memory cgroup");
  for (const std::string_view part : {"anon-rss:", "file-rss:", "shmem-rss:"}) {
    kill.resident_bytes += LeadingNumber(After(victim.substr(close), part)) * 1024;
  }
  return kill;
}

KernelLog::KernelLog() {
  if (!InFirstPidNamespace()) return;
  fd_ = UniqueFd(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (fd_.valid()) ::lseek(fd_.get(), 0, SEEK_END);
}

std::vector<KernelKill> KernelLog::ReadKills() {
  std::vector<KernelKill> kills;
  char record[kMaxRecordBytes];
  while (fd_.valid()) {
    const ssize_t size = ::read(fd_.get(), record, sizeof record);
    // EPIPE means that the kernel has overwritten records; the next read() skips them.
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (size <= 0) break;
    if (auto kill = ParseKernelKill({record, static_cast<size_t>(size)})) {
      kills.push_back(*std::move(kill));
    }
  }
  return kills;
}

}  // namespace ddprun::launcher
