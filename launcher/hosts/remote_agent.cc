#include "launcher/hosts/remote_agent.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "launcher/hosts/hosts.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

// Appends what the pipe has now. Returns false at its end.
bool ReadMore(int fd, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  return got > 0 || (got < 0 && errno == EAGAIN);
}

// Ignores a closed pipe: the command has ended, and its end says more than the error.
void Write(const UniqueFd& pipe, const std::string& bytes) {
  [[maybe_unused]] const ssize_t written = ::write(pipe.get(), bytes.data(), bytes.size());
}

}  // namespace

Status RemoteAgent::Start(const Environment& env) {
  std::array<UniqueFd, 3> ours;
  std::array<UniqueFd, 3> theirs;
  for (size_t fd = 0; fd < ours.size(); ++fd) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("opening a pipe", errno);
    const size_t own_end = fd == STDIN_FILENO ? 1 : 0;
    ours[fd].reset(ends[own_end]);
    theirs[fd].reset(ends[1 - own_end]);
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (int fd = 0; fd < 3; ++fd) {
    ::posix_spawn_file_actions_adddup2(&actions, theirs[fd].get(), fd);
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // Ctrl-C does not reach another session, and ssh in it asks nothing.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const std::vector<std::string> entries = env.Entries();
  const int error = ::posix_spawn(&pid_, start_.command.front().c_str(), &actions, &attributes,
                                  CStrings(start_.command).data(), CStrings(entries).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return SystemError("starting " + start_.command.front(), error);
  in_ = std::move(ours[0]);
  out_.assign(ours[1].release());
  out_.non_blocking(true);
  err_ = std::move(ours[2]);
  ::fcntl(err_.get(), F_SETFL, O_NONBLOCK);
  AwaitReady();
  return {};
}

void RemoteAgent::AwaitReady() {
  out_.async_wait(out_.wait_read, [this](const asio::error_code& error) {
    if (error || !ReadMore(out_.native_handle(), words_)) return;
    if (words_.ends_with(kReadyLine)) return OnReady();
    AwaitReady();
  });
}

void RemoteAgent::OnReady() {
  out_stream_ = WorkerStream::Start(io_, UniqueFd(out_.release()), {.console = &console_.out()});
  err_stream_ = WorkerStream::Start(io_, std::move(err_), {.console = &console_.err()});
  // The host reads them now. Before that it writes nothing behind the line.
  Write(in_, start_.orders);
}

void RemoteAgent::Signal(int signal) {
  if (!ready()) return GiveUp();
  Write(in_, std::string(1, static_cast<char>(signal)));
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
