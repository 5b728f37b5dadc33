#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include <ddprun/error.h>
#include "base/unique_fd.h"
#include "launcher/hosts/host_orders.h"
#include "launcher/hosts/hosts.h"
#include "launcher/hosts/remote_agent.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

// Appends what the standard input has. Returns false at its end.
bool ReadMore(std::string& bytes) {
  std::array<char, 4096> buffer;
  ssize_t got = 0;
  do {
    got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  if (got > 0) bytes.append(buffer.data(), static_cast<size_t>(got));
  return got > 0;
}

// Starts ddprun, which gets SIGTERM if this process is killed.
Result<pid_t> StartAgent(const HostOrders& orders, const Environment& env, const sigset_t& mask) {
  std::vector<std::string> args = {"ddprun"};
  args.insert(args.end(), orders.args.begin(), orders.args.end());
  const std::vector<std::string> entries = env.Entries();
  const std::vector<char*> argv = CStrings(args);
  const std::vector<char*> envp = CStrings(entries);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return SystemError("starting ddprun (fork)", errno);
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::close_range(3, ~0U, 0);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execve("/proc/self/exe", argv.data(), envp.data());
  ::_exit(126);
}

// Passes on signals until the agent ends, and returns its exit code.
int WatchAgent(pid_t pid, std::string signals, const UniqueFd& ends) {
  bool open = true;
  while (true) {
    for (const char signal : signals) ::kill(pid, signal);
    signals.clear();
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    std::array<pollfd, 2> entries = {{{.fd = ends.get(), .events = POLLIN, .revents = 0},
                                      {.fd = open ? 0 : -1, .events = POLLIN, .revents = 0}}};
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    signalfd_siginfo info{};
    if (entries[0].revents != 0 && ::read(ends.get(), &info, sizeof info) < 0) continue;
    if (entries[1].revents == 0 || ReadMore(signals)) continue;
    open = false;
    signals.push_back(SIGTERM);  // nobody waits for the job any longer
  }
}

}  // namespace

Result<int> RunOnHost(const std::vector<std::string>& /*args*/, const Environment& env) {
  std::string bytes;
  std::optional<HostOrders> orders;
  while (!(orders = TakeOrders(bytes))) {
    if (!ReadMore(bytes)) {
      return Error{.code = Code::kUsage,
                   .title = "NO ORDERS",
                   .what =
                       "ddprun on_host is started by ddprun --hostfile, which tells it what to "
                       "do on its standard input; the input has ended.",
                   .hint = "ddprun --hostfile=FILE TARGET starts it on each host.",
                   .page = "no-agent-on-host"};
    }
  }
  std::fputs(kReadyLine.data(), stdout);
  std::fflush(stdout);
  if (::chdir(orders->folder.c_str()) != 0) {
    return Error{.code = Code::kUsage,
                 .title = "NO FOLDER ON HOST",
                 .where = orders->folder,
                 .what =
                     "The agent starts in the folder in which ddprun was started, and entering "
                     "it here failed: " +
                     ErrnoText(errno) + ".",
                 .hint = "Use a folder that all hosts have, such as one of a shared file system.",
                 .page = "no-agent-on-host"};
  }
  Environment own = env;
  for (const std::string& entry : orders->env) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) own.Set(entry.substr(0, equals), entry.substr(equals + 1));
  }
  own.Set("PWD", orders->folder);
  own.Unset("DDPRUN_JOB_ID");
  sigset_t child;
  sigset_t original;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::signal(SIGCHLD, SIG_DFL);
  ::sigprocmask(SIG_BLOCK, &child, &original);
  const UniqueFd ends(::signalfd(-1, &child, SFD_CLOEXEC));
  if (ends.get() < 0) return SystemError("opening a signalfd", errno);
  DDPRUN_ASSIGN(const pid_t pid, StartAgent(*orders, own, original));
  return WatchAgent(pid, std::move(bytes), ends);
}

}  // namespace ddprun::launcher
