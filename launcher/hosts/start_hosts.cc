#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <ddprun/error.h>
#include "base/terminal.h"
#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/target.h"
#include "launcher/cluster/cluster.h"
#include "launcher/hosts/hosts.h"
#include "launcher/hosts/hosts_plan.h"
#include "launcher/hosts/remote_agent.h"
#include "launcher/process/clock.h"

namespace ddprun::launcher {

namespace {

using std::chrono::seconds;

// An agent that has failed tells the others, which then end by themselves; this is for an agent
// that has failed before it met them.
constexpr seconds kAfterFailure{5};
// The time that an agent may need besides --shutdown_timeout, and from a second stop signal on.
constexpr seconds kBeyondGrace{15};
constexpr seconds kHurry{5};
constexpr seconds kDefaultGrace{300};  // the longest that an agent has without that flag
constexpr int kSshFailed = 255;

Error NoAgent(const Host& host, int code, std::string words) {
  std::erase(words, '\r');
  words.erase(0, std::min(words.find_first_not_of(" \n"), words.size()));
  words.erase(words.find_last_not_of(" \n") + 1);
  const std::string said = words.empty() ? "." : ":\n" + MakePrintable(words);
  return Error{.code = Code::kRendezvous,
               .title = "NO AGENT ON HOST",
               .where = host.name,
               .what = "ddprun could not be started on " + host.name + " (exit status " +
                       std::to_string(code) + ")" + said,
               .hint = code == kSshFailed
                           ? "This must work without a question: ssh " + host.name + " true"
                           : "Each host needs ddprun in the same folder: " + ProgramFolder(),
               .page = "no-agent-on-host"};
}

// The agents of a job, from the start of the first to the end of the last.
class HostsRun {
 public:
  HostsRun(asio::io_context& io, Console& console, const HostsPlan& plan, const Environment& env)
      : io_(io), clock_(io), console_(console), plan_(plan), env_(env) {}

  Status Start(const SignalMask& mask) {
    for (size_t i = 0; i < plan_.hosts.size(); ++i) {
      DDPRUN_ASSIGN(agents_.emplace_back(),
                    RemoteAgent::Start(io_, console_, mask, env_, plan_.commands[i],
                                       WriteOrders(plan_.orders[i])));
    }
    return {};
  }

  void OnSignal(int signal) {
    if (signal == SIGCHLD) return Reap();
    const std::vector<int>& stop = plan_.options.signals_to_handle;
    const bool stops = std::ranges::count(stop, signal) > 0;
    if (!stops && signal != SIGUSR1 && signal != SIGUSR2) return;
    SendAll(signal);
    if (stops) GiveUpAfter(std::exchange(stopped_by_, signal) == 0 ? Grace() : kHurry);
  }

  // A node that is lost does no harm as long as enough others are left.
  int code() const { return HasEnough() ? 0 : first_code_; }

 private:
  std::chrono::milliseconds Grace() const {
    return plan_.options.shutdown_timeout.value_or(kDefaultGrace) + kBeyondGrace;
  }

  bool HasEnough() const {
    const int left = static_cast<int>(plan_.hosts.size()) - failed_;
    return !lost_meeting_ && left >= plan_.options.rdzv.rules.min_nodes;
  }

  void SendAll(int signal) {
    for (const auto& agent : agents_) agent->Signal(signal);
  }

  void GiveUpAfter(std::chrono::milliseconds patience) {
    give_up_ = clock_.Set(patience, [this] {
      for (const auto& agent : agents_) agent->GiveUp();
    });
  }

  void Reap() {
    for (size_t i = 0; i < agents_.size(); ++i) {
      if (const auto code = agents_[i]->TryEnd()) OnEnd(i, *code);
    }
    if (ended_ == agents_.size()) io_.stop();
  }

  void OnEnd(size_t i, int code) {
    ++ended_;
    const bool ready = agents_[i]->ready();
    if (!ready && stopped_by_ != 0) code = 128 + stopped_by_;
    if (!ready && stopped_by_ == 0) {
      const Error error = NoAgent(plan_.hosts[i], code, agents_[i]->words());
      console_.err().WriteLines(RenderForTerminal(error, env_));
      code = ExitStatus(error.code);
      lost_meeting_ = lost_meeting_ || i == 0;
    }
    if (code == 0) return;
    ++failed_;
    if (first_code_ == 0) first_code_ = code;
    if (HasEnough() || stopped_by_ != 0 || ending_ != nullptr) return;
    ending_ = clock_.Set(ready ? kAfterFailure : seconds(0), [this] {
      if (std::exchange(stopped_by_, SIGTERM) != 0) return;
      SendAll(SIGTERM);
      GiveUpAfter(Grace());
    });
  }

  asio::io_context& io_;
  LoopClock clock_;
  Console& console_;
  const HostsPlan& plan_;
  const Environment& env_;
  std::vector<std::unique_ptr<RemoteAgent>> agents_;
  size_t ended_ = 0;
  int failed_ = 0;
  int first_code_ = 0;
  int stopped_by_ = 0;         // the first signal by which the job ends; 0 means none
  bool lost_meeting_ = false;  // the host where the others would meet has no agent
  Clock::Alarm ending_;
  Clock::Alarm give_up_;
};

Result<int> RunPlan(const HostsPlan& plan, const Environment& env) {
  const SignalMask mask(plan.options.signals_to_handle);
  asio::io_context io;
  Console console(io, STDOUT_FILENO, STDERR_FILENO);
  HostsRun run(io, console, plan, env);
  DDPRUN_ASSIGN(const auto signals, SignalReader::Create(io, mask, [&run](int signal, pid_t) {
                  run.OnSignal(signal);
                }));
  DDPRUN_TRY(run.Start(mask));
  io.run();
  io.restart();
  console.WhenEmpty([&io] { io.stop(); });
  io.run();
  return run.code();
}

}  // namespace

Result<std::optional<int>> StartHosts(const std::vector<std::string>& args,
                                      const Environment& env) {
  if (env.Get(kHostPlaceVariable) && !env.Get("DDPRUN_JOB_ID")) return std::optional<int>();
  DDPRUN_ASSIGN(const SplitArgs split, SplitFlags(args, AllFlags()));
  std::string file;
  std::string ssh = "ssh -o BatchMode=yes -o ServerAliveInterval=15";
  for (const GivenFlag& given : split.flags) {
    if (given.flag.read == nullptr) return std::optional<int>();  // --help and its like
    if (given.flag.name == "hostfile") file = given.value;
    if (given.flag.name == "ssh_command") ssh = given.value;
  }
  if (file.empty()) return std::optional<int>();
  DDPRUN_ASSIGN(const HostsPlan plan, MakeHostsPlan(file, ssh, args, env));
  if (plan.options.dry_run) {
    for (const std::vector<std::string>& command : plan.commands) {
      std::puts(FormatList(command, " ").c_str());
    }
    return std::optional<int>(0);
  }
  DDPRUN_ASSIGN(const int code, RunPlan(plan, env));
  return std::optional<int>(code);
}

}  // namespace ddprun::launcher
