#include "launcher/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/env.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

namespace {

using Clock = std::chrono::steady_clock;

std::string ReadAll(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  while (fd.valid()) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

// /proc/PID/stat: "pid (name) state ppid pgrp session ..."; the name may hold anything.
std::optional<ProcessEntry> ReadEntry(pid_t pid) {
  const std::string text = ReadAll("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  char state = 0;
  int parent = 0;
  int group = 0;
  int session = 0;
  const char* rest = text.c_str() + name_end + 1;
  if (std::sscanf(rest, " %c %d %d %d", &state, &parent, &group, &session) != 4) {
    return std::nullopt;
  }
  return ProcessEntry{pid, parent, session, state == 'Z' || state == 'X', false};
}

bool IsMarked(pid_t pid, std::string_view job_id) {
  return CarriesJobId(ReadAll("/proc/" + std::to_string(pid) + "/environ"), job_id);
}

// A handle on exactly the process that was listed, even if its number is being reused: what the
// number means is looked at again once the handle is there.
UniqueFd OpenMember(const ProcessEntry& listed) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, listed.pid, 0)));
  const std::optional<ProcessEntry> now = ReadEntry(listed.pid);
  if (!now || now->session != listed.session) return UniqueFd();
  return pidfd;
}

void Kill(pid_t pid, const UniqueFd& pidfd) {
  if (pidfd.valid()) {
    ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  } else if (::syscall(SYS_pidfd_open, ::getpid(), 0) < 0) {
    ::kill(pid, SIGKILL);  // a kernel without pidfds
  }
}

// A pidfd becomes readable when its process ends.
void WaitForEnd(const std::vector<UniqueFd>& pidfds, Clock::time_point deadline) {
  for (const UniqueFd& pidfd : pidfds) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return;
    pollfd waiting{pidfd.get(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(left));
  }
}

// Reaps what has ended; false once there is no child at all.
bool ReapChildren() {
  pid_t reaped = 0;
  do {
    reaped = ::waitpid(-1, nullptr, WNOHANG);
  } while (reaped > 0);
  return !(reaped < 0 && errno == ECHILD);
}

std::vector<pid_t> ChildrenOf(pid_t parent, pid_t spared) {
  std::vector<pid_t> children;
  for (const ProcessEntry& process : ListProcesses("")) {
    if (process.parent != parent || process.pid == spared || process.ended) continue;
    children.push_back(process.pid);
  }
  return children;
}

}  // namespace

std::vector<ProcessEntry> ListProcesses(std::string_view job_id) {
  std::vector<ProcessEntry> processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::optional<int64_t> pid = ParseInt(entry->d_name);
    if (!pid) continue;
    std::optional<ProcessEntry> process = ReadEntry(static_cast<pid_t>(*pid));
    if (!process) continue;
    process->marked = !job_id.empty() && IsMarked(process->pid, job_id);
    processes.push_back(*process);
  }
  return processes;
}

bool CarriesJobId(std::string_view environment_block, std::string_view job_id) {
  if (job_id.empty()) return false;
  const std::string wanted = "DDPRUN_JOB_ID=" + std::string(job_id);
  size_t begin = 0;
  while (begin < environment_block.size()) {
    const size_t end = std::min(environment_block.find('\0', begin), environment_block.size());
    const std::string_view entry = environment_block.substr(begin, end - begin);
    if (entry.starts_with(wanted)) {
      return entry.size() == wanted.size() || entry[wanted.size()] == '/';
    }
    begin = end + 1;
  }
  return false;
}

std::vector<pid_t> SelectJobProcesses(std::span<const ProcessEntry> processes,
                                      const std::set<pid_t>& sessions,
                                      pid_t self,
                                      pid_t own_session) {
  std::set<pid_t> members;
  bool grown = true;
  while (grown) {
    grown = false;
    for (const ProcessEntry& process : processes) {
      if (process.pid == self || process.session == own_session) continue;
      const bool belongs =
          process.marked || sessions.contains(process.session) || members.contains(process.parent);
      if (belongs && members.insert(process.pid).second) grown = true;
    }
  }
  std::vector<pid_t> living;
  for (const ProcessEntry& process : processes) {
    if (!process.ended && members.contains(process.pid)) living.push_back(process.pid);
  }
  return living;
}

std::vector<pid_t> EndChildren(pid_t spared, const SweepTimes& times) {
  // A child that ended between looking and waiting has left its SIGCHLD pending, so the wait
  // returns at once; the cap only covers signals that were coalesced.
  constexpr timespec kLongestWait{0, 50'000'000};
  const Clock::time_point start = Clock::now();
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  while (ReapChildren()) {
    const Clock::time_point now = Clock::now();
    if (now > start + times.grace) {
      const std::vector<pid_t> children = ChildrenOf(::getpid(), spared);
      if (now > start + times.limit) return children;
      // A child's number stays its own until we reap it, so this cannot hit another process.
      for (const pid_t child : children) ::kill(child, SIGKILL);
    }
    ::sigtimedwait(&child_ended, nullptr, &kLongestWait);
  }
  return {};
}

void EndJob(std::string_view job_id, const std::set<pid_t>& sessions, const SweepTimes& times) {
  const Clock::time_point start = Clock::now();
  // A process may fork and end while /proc is being listed, and its child be listed nowhere: two
  // listings in a row have to be empty.
  int empty_listings = 0;
  while (empty_listings < 2 && Clock::now() < start + times.limit) {
    const std::vector<ProcessEntry> processes = ListProcesses(job_id);
    const std::vector<pid_t> members =
        SelectJobProcesses(processes, sessions, ::getpid(), ::getsid(0));
    empty_listings = members.empty() ? empty_listings + 1 : 0;
    const bool kill = Clock::now() >= start + times.grace;
    std::vector<UniqueFd> pidfds;
    for (const pid_t pid : members) {
      const auto listed = std::find_if(processes.begin(), processes.end(),
                                       [pid](const auto& p) { return p.pid == pid; });
      UniqueFd pidfd = OpenMember(*listed);
      if (kill) Kill(pid, pidfd);
      if (pidfd.valid()) pidfds.push_back(std::move(pidfd));
    }
    WaitForEnd(pidfds, start + (kill ? times.limit : times.grace));
  }
}

}  // namespace ddprun::launcher
