#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <ddprun/error.h>
#include "base/terminal.h"
#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/read_value.h"
#include "launcher/cli/target.h"
#include "launcher/cluster/cluster.h"
#include "launcher/hosts/hosts.h"
#include "launcher/hosts/hosts_plan.h"
#include "launcher/hosts/remote_agent.h"
#include "launcher/process/clock.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {

namespace {

using std::chrono::seconds;

// An agent that has failed tells the others, which then end by themselves; this is for an agent
// that has failed before it met them.
constexpr seconds kAfterFailure{5};
// The further stop signal that ends what does not answer. One request may come as two signals.
constexpr int kGivesUp = 3;
constexpr int kSshFailed = 255;

Error NoAgent(const std::string& host, int code, std::string words) {
  std::erase(words, '\r');
  const std::string said(TrimBlanks(MakePrintable(words)));
  return Error{.code = Code::kRendezvous,
               .title = "NO AGENT ON HOST",
               .where = host,
               .what = "ddprun could not be started on " + host + " (exit status " +
                       std::to_string(code) + ")" + (said.empty() ? "." : ":\n" + said),
               .hint = code == kSshFailed
                           ? "This must work without a question: ssh " + host + " true"
                           : "Each host needs ddprun in the same folder: " + ProgramFolder(),
               .page = "no-agent-on-host"};
}

// The agents of a job, from the start of the first to the end of the last.
class HostsRun {
 public:
  HostsRun(asio::io_context& io, Console& console, const HostsPlan& plan, const Environment& env)
      : io_(io), clock_(io), console_(console), plan_(plan), env_(env) {}

  Status Start() {
    for (const HostStart& start : plan_.starts) {
      agents_.push_back(std::make_unique<RemoteAgent>(io_, console_, start));
      DDPRUN_TRY(agents_.back()->Start(env_));
    }
    return {};
  }

  void OnSignal(int signal) {
    if (signal == SIGCHLD) return Reap();
    if (std::ranges::count(plan_.options.signals_to_handle, signal) > 0) return Stop(signal);
    if (signal == SIGUSR1 || signal == SIGUSR2) SendAll(signal);
  }

  void Reap() {
    for (size_t i = 0; i < agents_.size(); ++i) {
      if (const auto code = agents_[i]->TryEnd()) OnEnd(i, *code);
    }
    if (ended_ == agents_.size()) io_.stop();
  }

  // A node that is lost does no harm as long as enough others are left.
  int code() const { return HasEnough() ? 0 : first_code_; }

 private:
  bool HasEnough() const {
    return failed_ + static_cast<size_t>(plan_.options.rdzv.rules.min_nodes) <= agents_.size();
  }

  void SendAll(int signal) {
    for (const auto& agent : agents_) agent->Signal(signal);
  }

  void Stop(int signal) {
    SendAll(signal);
    stopped_by_ = signal;
    if (++stops_ < kGivesUp) return;
    for (const auto& agent : agents_) agent->GiveUp();
  }

  void OnEnd(size_t i, int code) {
    ++ended_;
    const bool ready = agents_[i]->ready();
    if (!ready && stopped_by_ != 0) {
      code = 128 + stopped_by_;
    } else if (!ready) {
      const Error error = NoAgent(plan_.starts[i].host.name, code, agents_[i]->words());
      console_.err().WriteLines(RenderForTerminal(error, env_));
      code = ExitStatus(error.code);
    }
    if (code == 0) return;
    // Without the first host the others have no place to meet.
    failed_ += !ready && i == 0 ? agents_.size() : 1;
    if (first_code_ == 0) first_code_ = code;
    if (HasEnough() || ending_ != nullptr) return;
    ending_ = clock_.Set(ready ? kAfterFailure : seconds(0), [this] {
      if (stopped_by_ == 0) Stop(SIGTERM);
    });
  }

  asio::io_context& io_;
  LoopClock clock_;
  Console& console_;
  const HostsPlan& plan_;
  const Environment& env_;
  std::vector<std::unique_ptr<RemoteAgent>> agents_;
  size_t ended_ = 0;
  size_t failed_ = 0;
  int first_code_ = 0;
  int stopped_by_ = 0;  // the last signal by which the job ends; 0 means none
  int stops_ = 0;
  Clock::Alarm ending_;
};

Result<std::optional<int>> RunPlan(const HostsPlan& plan, const Environment& env) {
  asio::io_context io;
  Console console(io, STDOUT_FILENO, STDERR_FILENO);
  HostsRun run(io, console, plan, env);
  DDPRUN_TRY(run.Start());
  const SignalMask mask(plan.options.signals_to_handle);
  DDPRUN_ASSIGN(const auto signals, SignalReader::Create(io, mask, [&run](int signal, pid_t) {
                  run.OnSignal(signal);
                }));
  run.Reap();  // an agent may have ended before the mask was set
  io.run();
  io.restart();
  console.WhenEmpty([&io] { io.stop(); });
  io.run();
  return std::optional<int>(run.code());
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
  if (!plan.options.dry_run) return RunPlan(plan, env);
  for (const HostStart& start : plan.starts) {
    std::puts(FormatList(start.command, " ").c_str());
  }
  return std::optional<int>(0);
}

}  // namespace ddprun::launcher
