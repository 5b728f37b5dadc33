#include "launcher/hosts/remote_agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> OpenPipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("opening a pipe", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

Result<std::unique_ptr<RemoteAgent>> RemoteAgent::Start(asio::io_context& io,
                                                        Console& console,
                                                        const SignalMask& mask,
                                                        const Environment& env,
                                                        const std::vector<std::string>& command,
                                                        const std::string& orders) {
  DDPRUN_ASSIGN(Pipe in, OpenPipe());
  DDPRUN_ASSIGN(Pipe out, OpenPipe());
  DDPRUN_ASSIGN(Pipe err, OpenPipe());
  const std::vector<std::string> entries = env.Entries();
  const std::vector<char*> argv = CStrings(command);
  const std::vector<char*> envp = CStrings(entries);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return SystemError("starting " + command.front() + " (fork)", errno);
  if (pid == 0) {
    ::setsid();  // Ctrl-C does not reach it, and ssh asks nothing
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(128 + SIGTERM);
    ::dup2(in.read_end.get(), STDIN_FILENO);
    ::dup2(out.write_end.get(), STDOUT_FILENO);
    ::dup2(err.write_end.get(), STDERR_FILENO);
    ::close_range(3, ~0U, 0);
    mask.Restore();
    ::execve(argv.front(), argv.data(), envp.data());
    ::_exit(127);
  }
  std::unique_ptr<RemoteAgent> agent(new RemoteAgent(
      io, console, pid, std::move(in.write_end), std::move(out.read_end), std::move(err.read_end)));
  agent->Send(orders);
  agent->AwaitReady();
  return agent;
}

RemoteAgent::RemoteAgent(
    asio::io_context& io, Console& console, pid_t pid, UniqueFd in, UniqueFd out, UniqueFd err)
    : io_(io),
      console_(console),
      pid_(pid),
      in_(io, in.release()),
      out_(io, out.release()),
      err_(std::move(err)) {
  in_.non_blocking(true);
  out_.non_blocking(true);
}

void RemoteAgent::Signal(int signal) {
  if (ready()) return Send(std::string(1, static_cast<char>(signal)));
  GiveUp();
}

void RemoteAgent::GiveUp() {
  if (pid_ > 0) ::kill(pid_, SIGTERM);
}

void RemoteAgent::Send(const std::string& bytes) {
  unsent_ += bytes;
  if (!std::exchange(writing_, true)) WriteMore();
}

void RemoteAgent::WriteMore() {
  const ssize_t written = ::write(in_.native_handle(), unsent_.data(), unsent_.size());
  // A closed pipe: the command has ended, and its end says more than this error.
  if (written < 0 && errno != EAGAIN && errno != EINTR) return;
  if (written > 0) unsent_.erase(0, static_cast<size_t>(written));
  writing_ = !unsent_.empty();
  if (!writing_) return;
  in_.async_wait(asio::posix::stream_descriptor::wait_write, [this](const asio::error_code& error) {
    if (!error) WriteMore();
  });
}

void RemoteAgent::AwaitReady() {
  out_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) ReadUntilReady();
    if (!error && out_.is_open()) AwaitReady();
  });
}

// Reads single bytes, so that all behind the line is left for the stream.
void RemoteAgent::ReadUntilReady() {
  char byte = 0;
  ssize_t got = 0;
  while (!words_.ends_with(kReadyLine)) {
    got = ::read(out_.native_handle(), &byte, 1);
    if (got == 0) out_.close();
    if (got <= 0) return;
    words_.push_back(byte);
  }
  words_.clear();
  out_stream_ = WorkerStream::Start(io_, UniqueFd(out_.release()), {.console = &console_.out()});
  err_stream_ = WorkerStream::Start(io_, std::move(err_), {.console = &console_.err()});
}

std::optional<int> RemoteAgent::TryEnd() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  if (!ready() && out_.is_open()) ReadUntilReady();
  if (ready()) {
    out_stream_->Finish();
    err_stream_->Finish();
  } else {
    std::array<char, 4096> buffer;
    ::fcntl(err_.get(), F_SETFL, O_NONBLOCK);
    const ssize_t got = ::read(err_.get(), buffer.data(), buffer.size());
    if (got > 0) words_.append(buffer.data(), static_cast<size_t>(got));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace ddprun::launcher
