#include "launcher/process/job_sweep.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/unique_fd.h"

namespace ddprun::launcher {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::nanoseconds kLookAgain = std::chrono::milliseconds(50);

// Opens the listed process. Reads its entry again after that, because the number may be reused.
UniqueFd OpenMember(const ProcessEntry& listed) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, listed.pid, 0)));
  const std::optional<ProcessEntry> now = ReadProcess(listed.pid);
  if (!now || now->start_time != listed.start_time) return UniqueFd();
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
void WaitForEnd(const std::vector<UniqueFd>& pidfds, SteadyClock::time_point deadline) {
  for (const UniqueFd& pidfd : pidfds) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now());
    if (left.count() <= 0) return;
    pollfd waiting{pidfd.get(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(left.count()));
  }
}

// Reaps children that have ended. Returns false if there is no child.
bool ReapChildren() {
  pid_t reaped = 0;
  do {
    reaped = ::waitpid(-1, nullptr, WNOHANG);
  } while (reaped > 0);
  return !(reaped < 0 && errno == ECHILD);
}

std::vector<ProcessEntry> OwnChildren(pid_t spared, const InheritedChildren& others) {
  std::vector<ProcessEntry> children = ListChildren();
  std::erase_if(children, [&](const ProcessEntry& child) {
    return child.pid == spared || child.ended || others.Contains(child);
  });
  return children;
}

}  // namespace

InheritedChildren InheritedChildren::Find(pid_t own) {
  InheritedChildren found;
  for (const ProcessEntry& child : ListChildren()) {
    if (child.pid == own || child.ended) continue;
    found.children_[child.pid] = child.start_time;
    found.sessions_.insert(child.session);
  }
  found.sessions_.insert(::getsid(0));
  return found;
}

bool InheritedChildren::Contains(const ProcessEntry& process) const {
  if (none()) return false;
  const auto child = children_.find(process.pid);
  const bool was_there = child != children_.end() && child->second == process.start_time;
  return was_there || sessions_.contains(process.session);
}

std::vector<pid_t> EndChildren(pid_t spared,
                               const InheritedChildren& others,
                               const SweepTimes& times) {
  // If a child ends before the wait, its SIGCHLD is pending and the wait returns at once. The limit
  // covers signals that the kernel has merged.
  constexpr timespec kLongestWait{0, kLookAgain.count()};
  const SteadyClock::time_point start = SteadyClock::now();
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  while (ReapChildren()) {
    const std::vector<ProcessEntry> children = OwnChildren(spared, others);
    // InheritedChildren stay. Looks twice: while a child ends, its children may be in no list.
    if (!others.none() && children.empty() && OwnChildren(spared, others).empty()) return {};
    const SteadyClock::time_point now = SteadyClock::now();
    std::vector<pid_t> left;
    for (const ProcessEntry& child : children) {
      // A child's number is not reused before this process reaps it.
      if (times.IsOver(child, now - start)) ::kill(child.pid, SIGKILL);
      left.push_back(child.pid);
    }
    if (now > start + times.limit) return left;
    ::sigtimedwait(&child_ended, nullptr, &kLongestWait);
  }
  return {};
}

void EndJob(JobMarks marks, const SweepTimes& times) {
  const SteadyClock::time_point start = SteadyClock::now();
  // The guard's own start time, because the guard is older than the workers.
  const std::optional<ProcessEntry> self = ReadProcess(::getpid());
  const uint64_t job_start = self ? self->start_time : 0;
  // Two listings must be empty, because a child may be missing in one if its parent ends meanwhile.
  int empty_listings = 0;
  while (empty_listings < 2 && SteadyClock::now() < start + times.limit) {
    std::vector<ProcessEntry> processes = ListProcesses();
    DropReused(processes, marks.sessions);
    for (ProcessEntry& process : processes) process.marked = IsMarked(process, marks, job_start);
    const std::vector<pid_t> members =
        SelectJobProcesses(processes, marks.sessions, ::getpid(), ::getsid(0));
    empty_listings = members.empty() ? empty_listings + 1 : 0;
    const SteadyClock::time_point now = SteadyClock::now();
    bool all_killed = true;
    std::vector<UniqueFd> pidfds;
    for (const pid_t pid : members) {
      const auto listed = std::find_if(processes.begin(), processes.end(),
                                       [pid](const auto& p) { return p.pid == pid; });
      UniqueFd pidfd = OpenMember(*listed);
      const bool kill = times.IsOver(*listed, now - start);
      if (kill) Kill(pid, pidfd);
      all_killed = all_killed && kill;
      if (pidfd.valid()) pidfds.push_back(std::move(pidfd));
    }
    const SteadyClock::time_point next_look = std::max(start + times.grace, now + kLookAgain);
    WaitForEnd(pidfds, all_killed ? start + times.limit : next_look);
  }
}

}  // namespace ddprun::launcher
