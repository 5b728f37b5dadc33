#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include <ddprun/error.h>
#include "base/unique_fd.h"
#include "launcher/hosts/hosts.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

// Reads a text up to its NUL from the standard input; nullopt if the input ends before. Reads
// single bytes, so that the signals are left.
std::optional<std::string> ReadText() {
  std::string text;
  for (char byte = 0; ::read(STDIN_FILENO, &byte, 1) == 1; text.push_back(byte)) {
    if (byte == '\0') return text;
  }
  return std::nullopt;
}

// Passes on signals from the standard input until the process `agent` ends.
[[noreturn]] void PassSignals(int agent) {
  ::close(STDOUT_FILENO);  // sshd waits until nobody has the output open
  ::close(STDERR_FILENO);
  std::array<pollfd, 2> entries = {{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                    {.fd = agent, .events = POLLIN, .revents = 0}}};
  while (entries[1].revents == 0) {
    if (::poll(entries.data(), entries.size(), -1) < 0 || entries[0].revents == 0) continue;
    char signal = SIGTERM;  // if the input has ended: nobody waits for the job any longer
    const bool open = ::read(STDIN_FILENO, &signal, 1) == 1;
    ::syscall(SYS_pidfd_send_signal, agent, static_cast<int>(signal), nullptr, 0);
    if (!open) break;
  }
  ::_exit(0);
}

// Starts PassSignals() for this process. That process is no child of this one, because an agent
// ends children that it does not know.
Status StartPassingSignals() {
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!self.valid()) return SystemError("opening a pidfd", errno);
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) PassSignals(self.get());
    ::_exit(grandchild < 0 ? errno : 0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) < 0) status = W_EXITCODE(errno, 0);
  return status == 0 ? Status() : SystemError("starting a process (fork)", WEXITSTATUS(status));
}

}  // namespace

Result<int> RunOnHost(const std::vector<std::string>& /*args*/, const Environment& env) {
  std::fputs(kReadyLine.data(), stdout);
  std::fflush(stdout);
  std::vector<std::string> args = {"ddprun"};
  Environment own = env;
  own.Unset("DDPRUN_JOB_ID");
  std::optional<std::string> order;
  while ((order = ReadText()) && !order->empty()) {
    const size_t equals = order->find('=');
    if (order->front() == kArgumentOrder) {
      args.push_back(order->substr(1));
    } else if (equals != std::string::npos) {
      own.Set(order->substr(1, equals - 1), order->substr(equals + 1));
    }
  }
  if (!order) return 128 + SIGTERM;  // nobody waits for the job any longer
  const std::string folder = own.GetOr("PWD", "");
  if (::chdir(folder.c_str()) != 0) {
    return Error{.code = Code::kUsage,
                 .title = "NO FOLDER ON HOST",
                 .where = folder,
                 .what =
                     "The agent starts in the folder in which ddprun was started, and "
                     "entering it here failed: " +
                     ErrnoText(errno) + ".",
                 .hint = "Use a folder that all hosts have, such as one of a shared file system.",
                 .page = "no-agent-on-host"};
  }
  DDPRUN_TRY(StartPassingSignals());
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(null.get(), STDIN_FILENO);
  const std::vector<std::string> entries = own.Entries();
  ::execve("/proc/self/exe", CStrings(args).data(), CStrings(entries).data());
  return SystemError("executing ddprun", errno);
}

}  // namespace ddprun::launcher
