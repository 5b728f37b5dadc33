#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "launcher/hang/worker_activity.h"
#include "launcher/process/process_table.h"

namespace ddprun::launcher {

namespace {

using std::chrono::milliseconds;

std::string ProcPath(pid_t pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns the fields of /proc/PID/stat after the name, which may have blanks and parentheses: [0]
// is the state, [11] to [14] are CPU times of the process and of children that it has waited for.
std::vector<std::string> StatFields(pid_t pid) {
  const std::string line = FirstLine(ProcPath(pid, "stat"));
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(line.substr(name_end + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(std::move(field));
  return fields;
}

// Returns nullopt if the process is gone.
std::optional<milliseconds> CpuTime(pid_t pid) {
  static const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  const std::vector<std::string> fields = StatFields(pid);
  if (fields.size() < 15) return std::nullopt;
  int64_t ticks = 0;
  for (size_t i = 11; i < 15; ++i) ticks += std::strtoll(fields[i].c_str(), nullptr, 10);
  return milliseconds(ticks * 1000 / ticks_per_second);
}

struct CallName {
  long number;
  const char* name;
  bool has_descriptor;  // its first argument is a descriptor
};

// System calls in which a worker may wait for long.
constexpr std::array<CallName, 31> kCalls = {{
    {SYS_read, "read", true},
    {SYS_readv, "readv", true},
    {SYS_pread64, "pread", true},
    {SYS_write, "write", true},
    {SYS_writev, "writev", true},
    {SYS_pwrite64, "pwrite", true},
    {SYS_openat, "open", false},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_flock, "flock", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_ioctl, "ioctl", true},
    {SYS_connect, "connect", true},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept", true},
    {SYS_recvfrom, "recv", true},
    {SYS_recvmsg, "recv", true},
    {SYS_sendto, "send", true},
    {SYS_sendmsg, "send", true},
    {SYS_ppoll, "poll", false},
    {SYS_pselect6, "select", false},
    {SYS_epoll_pwait, "epoll_wait", true},
    {SYS_futex, "futex (a lock or a thread's end)", false},
    {SYS_nanosleep, "sleep", false},
    {SYS_clock_nanosleep, "sleep", false},
    {SYS_wait4, "wait for a child", false},
    {SYS_waitid, "wait for a child", false},
    {SYS_rt_sigtimedwait, "wait for a signal", false},
    {SYS_rt_sigsuspend, "wait for a signal", false},
    {SYS_munmap, "munmap", false},
    {SYS_mmap, "mmap", false},
}};

// System calls that newer architectures do not have.
#ifdef SYS_poll
constexpr std::array<CallName, 4> kOldCalls = {{{SYS_poll, "poll", false},
                                                {SYS_select, "select", false},
                                                {SYS_epoll_wait, "epoll_wait", true},
                                                {SYS_pause, "pause", false}}};
#else
constexpr std::array<CallName, 0> kOldCalls = {};
#endif

const CallName* FindCall(long number) {
  const auto is_it = [number](const CallName& call) { return call.number == number; };
  if (const auto* call = std::find_if(kCalls.begin(), kCalls.end(), is_it); call != kCalls.end()) {
    return call;
  }
  const auto* call = std::find_if(kOldCalls.begin(), kOldCalls.end(), is_it);
  return call == kOldCalls.end() ? nullptr : call;
}

// Returns what a descriptor is: "pipe:[81]", "/data/train.bin".
std::string DescriptorName(pid_t pid, const std::string& hexadecimal) {
  const unsigned long fd = std::strtoul(hexadecimal.c_str(), nullptr, 16);
  std::array<char, 512> target{};
  const std::string path = ProcPath(pid, "fd/" + std::to_string(fd));
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length <= 0) return "descriptor " + std::to_string(fd);
  return {target.data(), static_cast<size_t>(length)};
}

// Reads /proc/PID/syscall: "running", or the number, six hexadecimal arguments and two addresses.
void ReadSystemCall(pid_t pid, ProcessPlace& place) {
  std::istringstream line(FirstLine(ProcPath(pid, "syscall")));
  long number = -1;
  std::string argument;
  if (!(line >> number >> argument) || number < 0) return;
  place.system_call = number;
  const CallName* call = FindCall(number);
  if (call == nullptr) {
    place.where = "system call " + std::to_string(number);
    return;
  }
  place.where = call->name;
  if (call->has_descriptor) place.where += " of " + DescriptorName(pid, argument);
}

}  // namespace

ProcessPlace ReadProcessPlace(pid_t pid) {
  ProcessPlace place;
  const std::vector<std::string> fields = StatFields(pid);
  if (!fields.empty() && !fields[0].empty()) place.state = fields[0][0];
  ReadSystemCall(pid, place);
  // Adds the kernel function; kernels for containers often show only "0".
  const std::string channel = FirstLine(ProcPath(pid, "wchan"));
  if (!channel.empty() && channel != "0") {
    place.where += place.where.empty() ? channel : " [" + channel + "]";
  }
  return place;
}

std::map<pid_t, milliseconds> CpuTimes(std::span<const LiveWorker> workers) {
  std::map<pid_t, milliseconds> times;
  std::map<int, pid_t> pid_of_rank;
  for (const LiveWorker& worker : workers) pid_of_rank[worker.rank] = worker.pid;
  const std::vector<ProcessEntry> processes = ListProcesses();
  for (const SocketHolder& process : ProcessesOfWorkers(processes, workers)) {
    if (const auto time = CpuTime(process.pid)) times[pid_of_rank[process.rank]] += *time;
  }
  return times;
}

}  // namespace ddprun::launcher
