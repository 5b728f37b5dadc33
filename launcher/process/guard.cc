#include "launcher/process/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>

#include "base/env.h"
#include "base/owned_folder.h"
#include "launcher/process/close_from.h"
#include "launcher/process/job_sweep.h"

namespace ddprun::launcher {

namespace {

// Longer than the agent's limit, because no process waits for the guard.
constexpr std::chrono::seconds kSweepLimit{60};

void LeaveTheUser(int pipe_fd) {
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  if (::chdir("/") != 0) ::_exit(1);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  ::dup2(pipe_fd, 3);
  CloseFrom(4, When::kNow);
  ::prctl(PR_SET_NAME, "ddprun-guard");
}

// Reads a line of the pipe: "+pid", "-pid" or "|inode".
void Take(std::string_view line, JobMarks& marks) {
  const std::optional<int64_t> number = ParseInt(line.substr(1));
  if (!number) return;
  if (line.front() == '+') {
    const auto leader = ReadProcess(static_cast<pid_t>(*number));
    if (leader) marks.sessions[leader->pid] = leader->start_time;
  }
  if (line.front() == '-') marks.sessions.erase(static_cast<pid_t>(*number));
  if (line.front() == '|') marks.pipes.insert(static_cast<uint64_t>(*number));
}

[[noreturn]] void RunGuard(int pipe_fd, const std::string& job_id, const std::string& job_folder) {
  LeaveTheUser(pipe_fd);
  JobMarks marks{.job_id = job_id, .sessions = {}, .pipes = {}};
  std::string unread;
  char buffer[512];
  while (true) {
    const ssize_t got = ::read(3, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    unread.append(buffer, static_cast<size_t>(got));
    for (size_t end = unread.find('\n'); end != std::string::npos; end = unread.find('\n')) {
      if (end > 0) Take(unread.substr(0, end), marks);
      unread.erase(0, end + 1);
    }
  }
  EndJob(marks, SweepTimes{.limit = kSweepLimit});
  if (!job_folder.empty()) RemoveNewFolder(job_folder);
  ::_exit(0);
}

}  // namespace

Result<Guard> Guard::Start(const std::string& job_id, const std::string& job_folder) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("opening a pipe", errno);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  ::fcntl(write_end.get(), F_SETFL, O_NONBLOCK);
  // A child without exit signal is invisible to wait() without __WALL, so that "no child is left"
  // means the job's processes.
  const pid_t pid = static_cast<pid_t>(::syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
  if (pid < 0) return SystemError("starting the guard (clone)", errno);
  if (pid == 0) RunGuard(read_end.get(), job_id, job_folder);
  return Guard(pid, std::move(write_end));
}

void Guard::Watch(pid_t session_leader) {
  Send("+" + std::to_string(session_leader));
}

void Guard::Forget(pid_t session_leader) {
  Send("-" + std::to_string(session_leader));
}

void Guard::WatchPipe(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) == 0) Send("|" + std::to_string(info.st_ino));
}

void Guard::Dismiss() {
  // Killed, because a stopped guard reads no message. It cleans up only when the pipe is closed.
  ::kill(pid_, SIGKILL);
  pipe_.reset();
  while (::waitpid(pid_, nullptr, __WALL) < 0 && errno == EINTR) {
  }
}

void Guard::Send(const std::string& line) {
  // Does not block if the guard is stopped: what the pipe does not take is sent with the next line.
  // If the guard was killed (EPIPE), workers still have their parent-death signal.
  unsent_ += line + "\n";
  const ssize_t written = ::write(pipe_.get(), unsent_.data(), unsent_.size());
  const bool later = written < 0 && (errno == EAGAIN || errno == EINTR);
  if (!later) unsent_.erase(0, written < 0 ? unsent_.size() : static_cast<size_t>(written));
}

}  // namespace ddprun::launcher
