#include "launcher/hosts/remote_agent.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <asio/write.hpp>

#include "launcher/hosts/hosts.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

using Descriptor = asio::posix::stream_descriptor;

// Starts a program in a session of its own: Ctrl-C does not reach it, and ssh asks nothing. `pipes`
// gets this process's ends of its standard input, output and error.
Result<pid_t> StartWithPipes(const std::vector<std::string>& command,
                             const Environment& env,
                             std::array<UniqueFd, 3>& pipes) {
  std::array<UniqueFd, 3> theirs;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  int error = 0;
  for (int fd = 0; fd < 3 && error == 0; ++fd) {
    int ends[2] = {-1, -1};
    error = ::pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
    const int their_end = fd == STDIN_FILENO ? 0 : 1;
    theirs[fd].reset(ends[their_end]);
    pipes[fd].reset(ends[1 - their_end]);
    ::posix_spawn_file_actions_adddup2(&actions, ends[their_end], fd);
  }
  pid_t pid = -1;
  const std::vector<std::string> entries = env.Entries();
  if (error == 0) {
    error = ::posix_spawn(&pid, command.front().c_str(), &actions, &attributes,
                          CStrings(command).data(), CStrings(entries).data());
  }
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return SystemError("starting " + command.front(), error);
  return pid;
}

// Appends what the pipe has now. Returns false at its end.
bool ReadMore(int fd, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  return got > 0 || (got < 0 && errno == EAGAIN);
}

}  // namespace

Result<std::unique_ptr<RemoteAgent>> RemoteAgent::Start(asio::io_context& io,
                                                        Console& console,
                                                        const Environment& env,
                                                        const HostStart& start) {
  std::unique_ptr<RemoteAgent> agent(new RemoteAgent(io, console, start.orders));
  std::array<UniqueFd, 3> pipes;
  DDPRUN_ASSIGN(agent->pid_, StartWithPipes(start.command, env, pipes));
  for (const UniqueFd& pipe : pipes) ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  agent->in_.assign(pipes[0].release());
  agent->out_.assign(pipes[1].release());
  agent->err_ = std::move(pipes[2]);
  agent->AwaitReady();
  return agent;
}

void RemoteAgent::AwaitReady() {
  out_.async_wait(Descriptor::wait_read, [this](const asio::error_code& error) {
    if (error || !ReadMore(out_.native_handle(), words_)) return;
    if (words_.ends_with(kReadyLine)) return OnReady();
    AwaitReady();
  });
}

// Only now gives the orders: before them, ddprun writes nothing behind the line.
void RemoteAgent::OnReady() {
  out_stream_ = WorkerStream::Start(io_, UniqueFd(out_.release()), {.console = &console_.out()});
  err_stream_ = WorkerStream::Start(io_, std::move(err_), {.console = &console_.err()});
  asio::async_write(in_, asio::buffer(orders_), [this](const asio::error_code& error, size_t) {
    if (!error) has_orders_ = true;
  });
}

void RemoteAgent::Signal(int signal) {
  if (!has_orders_) return GiveUp();
  const char byte = static_cast<char>(signal);
  // A closed pipe: the command has ended, and its end says more than this error.
  [[maybe_unused]] const ssize_t written = ::write(in_.native_handle(), &byte, 1);
}

void RemoteAgent::GiveUp() {
  if (pid_ > 0) ::kill(pid_, SIGTERM);
}

std::optional<int> RemoteAgent::TryEnd() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  if (ready()) {
    out_stream_->Finish();
    err_stream_->Finish();
  } else {
    ReadMore(out_.native_handle(), words_);
    ReadMore(err_.get(), words_);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace ddprun::launcher
