#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>

#include "base/unique_fd.h"
#include "launcher/cli/target.h"
#include "launcher/commands.h"

namespace ddprun::launcher {

namespace {

constexpr std::chrono::seconds kPatience{2};

// What arrives on `fd` before it is closed; nothing when that takes longer than kPatience.
std::optional<std::string> ReadAll(const UniqueFd& fd) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
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

std::optional<std::string> OutputOf(const std::string& program, const std::string& argument) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  std::array<char*, 3> argv = {const_cast<char*>(program.c_str()),
                               const_cast<char*>(argument.c_str()), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  write_end.reset();
  if (error != 0) return std::nullopt;
  std::optional<std::string> text = ReadAll(read_end);
  if (!text) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status == 0 ? text : std::nullopt;
}

}  // namespace

std::string VersionsText(const Environment& env, const std::string& own_folder) {
  std::string text = "ddprun " DDPRUN_VERSION
                     "\ncommand line, environment and store of torchrun 2.11\n"
#ifdef __clang__
                     "clang " __clang_version__ "\n";
#else
                     "GCC " __VERSION__ "\n";
#endif
  const Result<std::string> trainer = FindTrainer(env, own_folder);
  if (!trainer) return text + "no ddp-trainer found\n";
  const std::optional<std::string> versions = OutputOf(*trainer, "--version");
  return text + versions.value_or("ddp-trainer, which does not tell\n") + *trainer + "\n";
}

}  // namespace ddprun::launcher
