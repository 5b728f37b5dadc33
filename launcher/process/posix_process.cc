#include "launcher/process/posix_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "launcher/process/close_from.h"
#include "launcher/process/job_sweep.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

Error ExecError(const SpawnRequest& request, int error_number) {
  Error error{.code = Code::kNotExecutable,
              .title = "PROGRAM NOT EXECUTABLE",
              .where = request.name,
              .what = "Executing " + request.program + " failed: " + ErrnoText(error_number) + ".",
              .page = "program-not-executable"};
  if (error_number == ENOENT) {
    error.hint =
        "The file exists, so the interpreter in its first line (#!) does not, or its "
        "dynamic loader.";
  } else if (error_number == ENOEXEC) {
    error.hint = "It is neither a program for this machine nor a script with a #! line.";
  } else if (error_number == E2BIG) {
    error.hint = "Arguments and environment together are too long.";
  }
  return error;
}

// All that the child needs. It is prepared before vfork(), because the child uses the parent's
// memory.
struct ChildPlan {
  const char* program;
  char** argv;
  char** env;
  int stdout_fd;
  int stderr_fd;
  const std::vector<int>* inherited_fds;
  const SignalMask* mask;
  const OpenFileLimit* files;
  const std::vector<unsigned long>* cpu_mask;  // nullptr means inherited
  pid_t parent;
  int error_pipe;
};

[[noreturn]] void RunChild(const ChildPlan& plan) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above.
  if (::getppid() != plan.parent) ::_exit(128 + SIGKILL);
  if (plan.stdout_fd >= 0) ::dup2(plan.stdout_fd, STDOUT_FILENO);
  if (plan.stderr_fd >= 0) ::dup2(plan.stderr_fd, STDERR_FILENO);
  // Closes all but the three standard descriptors at exec, as Python's subprocess does.
  CloseFrom(3, When::kAtExec);
  for (const int fd : *plan.inherited_fds) ::fcntl(fd, F_SETFD, 0);
  plan.mask->Restore();
  plan.files->Restore();
  // Changes only the child. Ignores errors: the CPUs were allowed when the options were checked,
  // and a later change is no reason to fail.
  if (plan.cpu_mask != nullptr) {
    ::sched_setaffinity(0, plan.cpu_mask->size() * sizeof(unsigned long),
                        reinterpret_cast<const cpu_set_t*>(plan.cpu_mask->data()));
  }
  ::execve(plan.program, plan.argv, plan.env);
  const int error_number = errno;
  [[maybe_unused]] const ssize_t written =
      ::write(plan.error_pipe, &error_number, sizeof error_number);
  ::_exit(127);
}

int OpenPidfd(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

std::optional<ProcessExit> ExitOf(const siginfo_t& info) {
  switch (info.si_code) {
    case CLD_EXITED:
      return Exited{info.si_status};
    case CLD_KILLED:
      return Signaled{info.si_status, false};
    case CLD_DUMPED:
      return Signaled{info.si_status, true};
    default:
      return std::nullopt;
  }
}

}  // namespace

struct PosixProcessHost::Watched {
  pid_t pid;
  asio::posix::stream_descriptor pidfd;
  // No pidfd, or it became readable before waitid() knew the end: SIGCHLD tells when to reap.
  bool by_signal = false;
};

PosixProcessHost::PosixProcessHost(asio::io_context& io,
                                   Clock& clock,
                                   const SignalMask& mask,
                                   Guard& guard)
    : io_(io),
      clock_(clock),
      mask_(mask),
      guard_(guard),
      others_(InheritedChildren::Find(guard.pid())) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

PosixProcessHost::~PosixProcessHost() = default;

Result<pid_t> PosixProcessHost::Spawn(const SpawnRequest& request) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("opening a pipe", errno);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  std::vector<char*> argv = CStrings(request.argv);
  std::vector<char*> env = CStrings(request.env);
  const std::vector<unsigned long> cpu_mask = CpuMask(request.cpus);
  const ChildPlan plan{.program = request.program.c_str(),
                       .argv = argv.data(),
                       .env = env.data(),
                       .stdout_fd = request.stdout_fd,
                       .stderr_fd = request.stderr_fd,
                       .inherited_fds = &request.inherited_fds,
                       .mask = &mask_,
                       .files = &files_,
                       .cpu_mask = request.cpus.empty() ? nullptr : &cpu_mask,
                       .parent = ::getpid(),
                       .error_pipe = write_end.get()};
  // With fork(), copying page tables and page faults would cost as much as all the rest. The child
  // makes only system calls that do not change what it shares with this process.
  const pid_t pid = ::vfork();
  if (pid < 0) return SystemError("starting " + request.name + " (fork)", errno);
  if (pid == 0) RunChild(plan);
  write_end.reset();
  int error_number = 0;
  ssize_t got = 0;
  do {
    got = ::read(read_end.get(), &error_number, sizeof error_number);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error_number) {
    ::waitpid(pid, nullptr, 0);
    return ExecError(request, error_number);
  }
  DDPRUN_TRY(Adopt(pid));
  return pid;
}

void PosixProcessHost::ExpectAdoption(bool on) {
  expects_adoption_ = on;
  ReapStrays();
}

Status PosixProcessHost::Adopt(pid_t pid) {
  const int fd = OpenPidfd(pid);
  // Without pidfds SIGCHLD tells of ends, but not exactly in their order.
  auto watched = std::make_unique<Watched>(Watched{pid, asio::posix::stream_descriptor(io_)});
  watched->by_signal = fd < 0;
  if (fd >= 0) {
    watched->pidfd.assign(fd);
    Wait(*watched);
  } else if (errno != ENOSYS && errno != EPERM) {
    return SystemError("watching process " + std::to_string(pid), errno);
  }
  watched_[pid] = std::move(watched);
  guard_.Watch(pid);
  return {};
}

void PosixProcessHost::Wait(Watched& watched) {
  watched.pidfd.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this, pid = watched.pid](const asio::error_code& error) {
                             if (!error) TryReap(pid);
                             ReapStrays();
                           });
}

void PosixProcessHost::TryReap(pid_t pid) {
  const auto it = watched_.find(pid);
  if (it == watched_.end()) return;
  siginfo_t info{};
  const bool known = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) == 0;
  const std::optional<ProcessExit> exit = known && info.si_pid == pid ? ExitOf(info) : std::nullopt;
  if (!exit) {
    // An adopted process has ended before it became a child of this process.
    it->second->by_signal = true;
    return;
  }
  watched_.erase(it);
  guard_.Forget(pid);
  if (handler_) handler_(pid, *exit);
}

void PosixProcessHost::OnChildSignal() {
  // Leaves the other processes to their pidfds, which report ends in their order.
  std::vector<pid_t> pids;
  for (const auto& [pid, watched] : watched_) {
    if (watched->by_signal) pids.push_back(pid);
  }
  for (const pid_t pid : pids) TryReap(pid);
  ReapStrays();
  if (sweep_ != nullptr) sweep_->Sweep();
}

void PosixProcessHost::ReapStrays() {
  while (!expects_adoption_) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // A watched process's own event reaps it later and then calls this function again.
    if (watched_.contains(info.si_pid)) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

void PosixProcessHost::Signal(pid_t pid, int signal) {
  if (watched_.contains(pid)) ::kill(pid, signal);
}

void PosixProcessHost::SignalGroup(pid_t pid, int signal) {
  if (!watched_.contains(pid)) return;
  // A worker that the template has just forked may not lead its group yet.
  if (::kill(-pid, signal) != 0 && errno == ESRCH) ::kill(pid, signal);
}

void PosixProcessHost::EndStrays(std::set<pid_t> sessions,
                                 std::function<void(std::vector<pid_t> left)> done) {
  const auto known = [this](pid_t pid) { return pid == guard_.pid() || watched_.contains(pid); };
  sweep_ = std::make_unique<StraySweep>(clock_, known, std::move(sessions), SweepTimes(),
                                        std::move(done), others_);
}

std::vector<pid_t> PosixProcessHost::EndAll() {
  sweep_.reset();
  for (const auto& [pid, watched] : watched_) ::kill(pid, SIGKILL);
  watched_.clear();
  return EndChildren(guard_.pid(), others_);
}

}  // namespace ddprun::launcher
