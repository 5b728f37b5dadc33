#include "launcher/agent/run_agent.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/process/posix_process.h"
#include "rendezvous/elastic/make_rendezvous.h"

namespace ddprun::launcher {

namespace {

Result<std::unique_ptr<rendezvous::Rendezvous>> OpenRendezvous(asio::io_context& io,
                                                               const AgentPlan& plan,
                                                               const Log& log) {
  const Options& options = plan.options;
  return rendezvous::MakeRendezvous(
      io, {.backend = options.rdzv_backend,
           .run_id = plan.run_id,
           .min_nodes = options.min_nodes,
           .max_nodes = options.max_nodes,
           .node_rank = options.node_rank,
           .local_world_size = plan.local_world_size,
           .role = options.role,
           .max_restarts = options.max_restarts,
           .endpoint = options.rdzv_endpoint,
           .master_addr = options.master_addr,
           .master_port = options.master_port,
           .local_addr = options.local_addr,
           .conf = options.rdzv_conf,
           .on_progress = [&log](const std::string& line) { log.Info(line); },
           .on_debug = [&log](const std::string& line) { log.Debug(line); }});
}

}  // namespace

Result<int> RunAgent(AgentPlan plan, const SignalMask& mask, Guard& guard) {
  const std::vector<int> stop = plan.options.signals_to_handle;
  asio::io_context io;
  LoopClock clock(io);
  Console console(io, STDOUT_FILENO, STDERR_FILENO);
  PosixProcessHost processes(io, clock, mask, guard);
  Agent agent(std::move(plan), {.io = io,
                                .clock = clock,
                                .processes = processes,
                                .console = console,
                                .open_rendezvous = [&io](const AgentPlan& of, const Log& log) {
                                  return OpenRendezvous(io, of, log);
                                }});
  bool over = false;
  const auto on_signal = [&](int signal, pid_t sender) {
    if (signal == SIGCHLD) return processes.OnChildSignal();
    // Only the report is left to be written, and nobody seems to read it.
    const bool stops = std::find(stop.begin(), stop.end(), signal) != stop.end();
    if (over && stops) return io.stop();
    agent.OnSignal(signal, sender);
    // The workers are stopped already. SIGCONT, which follows on "fg", is the next signal.
    if (signal == SIGTSTP) ::kill(::getpid(), SIGSTOP);
  };
  DDPRUN_ASSIGN(const auto signals, SignalReader::Create(io, mask, on_signal));
  agent.Start();
  io.run();
  const int code = agent.Finish();
  over = true;
  io.restart();
  console.WhenEmpty([&io] { io.stop(); });
  io.run();
  return code;
}

}  // namespace ddprun::launcher
