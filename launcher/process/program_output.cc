#include "launcher/process/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"

namespace ddprun::launcher {

namespace {

// Returns all bytes until `fd` is closed; nullopt if this takes longer than `patience`.
std::optional<std::string> ReadAll(const UniqueFd& fd, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::string text;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd entry{.fd = fd.get(), .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0) {
      return std::nullopt;
    }
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

}  // namespace

std::vector<char*> CStrings(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::optional<ProgramOutput> RunForOutput(const std::vector<std::string>& args,
                                          const Environment& env,
                                          bool with_stderr,
                                          std::chrono::milliseconds patience) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  if (with_stderr) {
    ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  const std::vector<std::string> entries = env.Entries();
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, args[0].c_str(), &actions, nullptr, CStrings(args).data(),
                                  CStrings(entries).data());
  ::posix_spawn_file_actions_destroy(&actions);
  write_end.reset();
  if (error != 0) return std::nullopt;
  std::optional<std::string> text = ReadAll(read_end, patience);
  if (!text) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!text) return std::nullopt;
  return ProgramOutput{.status = status, .text = *std::move(text)};
}

}  // namespace ddprun::launcher
