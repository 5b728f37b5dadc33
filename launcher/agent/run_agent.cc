#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/env.h"
#include "launcher/agent/agent.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/process/posix_process.h"

namespace ddprun::launcher {

namespace {

constexpr std::chrono::seconds kLongestWaitForReader{3};

}  // namespace

Result<int> RunAgent(AgentPlan plan, const SignalMask& mask, Guard& guard) {
  const std::vector<int> stop = plan.options.signals_to_handle;
  asio::io_context io;
  LoopClock clock(io);
  Console console(io, STDOUT_FILENO, STDERR_FILENO);
  PosixProcessHost processes(io, clock, mask, guard);
  Agent agent(std::move(plan),
              {.io = io,
               .clock = clock,
               .processes = processes,
               .console = console,
               .open_rendezvous =
                   [&io](const AgentPlan& of, const Log& log) {
                     rendezvous::RendezvousOptions options = of.options.rdzv;
                     // SLURM counts how often it has put the job back into the queue, under the
                     // same id.
                     const auto restarts = ParseInt(of.env.GetOr("SLURM_RESTART_COUNT", "0"));
                     options.requeues =
                         static_cast<int>(std::clamp<int64_t>(restarts.value_or(0), 0, 1 << 30));
                     options.on_progress = [&log](const std::string& line) { log.Info(line); };
                     options.on_debug = [&log](const std::string& line) { log.Debug(line); };
                     return of.options.backend->make(io, std::move(options));
                   },
               .open_losses =
                   [&io](const auto& options, const auto& membership, auto handlers) {
                     return std::make_unique<LossBoard>(io, options, membership,
                                                        std::move(handlers));
                   }});
  bool over = false;
  bool stopped = false;
  const auto on_signal = [&](int signal, pid_t sender) {
    if (signal == SIGCHLD) return processes.OnChildSignal();
    // A stop signal now ends the wait for a reader of the report, which is all that is left.
    const bool stops = std::find(stop.begin(), stop.end(), signal) != stop.end();
    if (over && stops) return io.stop();
    stopped = stopped || stops;
    agent.OnSignal(signal, sender);
    // Stops this process after the workers. The next signal is SIGCONT, on "fg".
    if (signal == SIGTSTP) ::kill(::getpid(), SIGSTOP);
  };
  DDPRUN_ASSIGN(const auto signals, SignalReader::Create(io, mask, on_signal));
  agent.Start();
  io.run();
  const int code = agent.Finish();
  over = true;
  io.restart();
  console.WhenEmpty([&io] { io.stop(); });
  // A job that was told to stop does not wait for a reader that reads nothing.
  if (stopped) {
    io.run_for(kLongestWaitForReader);
  } else {
    io.run();
  }
  return code;
}

}  // namespace ddprun::launcher
