#include "tests/launcher/agent/simulated_job.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/unique_fd.h"
#include "launcher/agent/agent.h"
#include "launcher/agent/job_result.h"
#include "launcher/report/exit_text.h"
#include "tests/launcher/agent/simulated_processes.h"
#include "tests/launcher/agent/simulated_rendezvous.h"
#include "tests/launcher/agent/simulated_world.h"

namespace ddprun::launcher {

namespace {

// Workers that SIGKILL does not end, what they have left behind, telling the others, the pace of
// the simulation.
constexpr seconds kLongestEnd{25};
// After that, jobs are told to stop that would not end by themselves.
constexpr seconds kPatience{300};

// The kind of a job.
struct Kind {
  AgentPlan plan;
  ProcessChances processes;
  RendezvousChances rendezvous;
};

Kind ChooseKind(World& world) {
  Kind kind;
  AgentPlan& plan = kind.plan;
  plan.target = {.name = "worker", .program = "/worker", .argv = {"worker"}};
  plan.target.is_trainer_config = world.Chance(40);
  if (plan.target.is_trainer_config) plan.target.template_argv = {"worker", "--template"};
  plan.env.Set("OMP_NUM_THREADS", "1");
  plan.options.rdzv.local_world_size = world.Pick(1, 3);
  plan.host = "host";
  Options& options = plan.options;
  options.log_dir = "/dev/null";
  options.rdzv.rules.max_restarts = world.Pick(0, 3);
  options.shutdown_timeout = world.Chance(50) ? seconds(30) : seconds(world.Pick(0, 4));
  if (world.Chance(20)) options.hang_timeout = world.Between(1000, 8000);
  if (world.Chance(40)) {
    options.rdzv.rules.min_nodes = options.rdzv.rules.max_nodes = 3;
    if (world.Chance(30)) options.exit_barrier_timeout = world.Between(0, 3000);
    kind.rendezvous.peer_ends = world.Chance(60) ? 40 : 0;
    kind.rendezvous.error = world.Chance(20) ? 10 : 0;
  }
  kind.processes.start_failure = world.Chance(10) ? 10 : 0;
  kind.processes.unkillable = world.Chance(5) ? 30 : 0;
  kind.processes.template_trouble = world.Chance(40) ? 40 : 0;
  kind.processes.recovers = world.Chance(60) ? 80 : 0;
  kind.processes.wrong_pages = world.Chance(20) ? 20 : 0;
  kind.processes.may_replace =
      options.rdzv.rules.max_restarts > 0 && options.rdzv.rules.max_nodes == 1;
  return kind;
}

class Job {
 public:
  Job(uint64_t seed, const AgentTable& agent_table, const GroupTable& group_table)
      : world_(seed),
        kind_(ChooseKind(world_)),
        screen_(::memfd_create("screen", MFD_CLOEXEC)),
        console_(world_.io, screen_.get(), screen_.get()),
        processes_(world_,
                   kind_.processes,
                   kind_.plan.grace().usual(),
                   kind_.plan.target.is_trainer_config),
        agent_(kind_.plan,
               {.io = world_.io,
                .clock = world_.clock,
                .processes = processes_,
                .console = console_,
                .open_rendezvous = [this](const AgentPlan&, const Log&) { return Open(); },
                .agent_table = agent_table,
                .group_table = group_table,
                .readers = {.cpu_times =
                                [this](std::span<const LiveWorker> workers) {
                                  return processes_.CpuTimes(workers);
                                },
                            .dead_links = [](auto) { return std::vector<DeadLink>(); }}}) {}

  SimulatedEnd Run() {
    PlanSignals();
    agent_.Start();
    world_.Run();
    if (processes_.any_worker_lives()) world_.Violate("the loop ends while workers live");
    if (world_.telling && !world_.hurried) world_.Violate("the others have not been told");
    const size_t said = Screen().size();
    const int code = agent_.Finish();
    world_.io.restart();
    world_.io.poll();
    world_.Note("exit code " + std::to_string(code));
    SimulatedEnd end;
    end.exit_code = code;
    end.screen = Screen();
    CheckTimes();
    CheckCode(code);
    CheckReport(code, end.screen.substr(said));
    end.violations = world_.violations;
    end.trace = world_.trace;
    return end;
  }

 private:
  Result<std::shared_ptr<rendezvous::Rendezvous>> Open() {
    const Options& options = kind_.plan.options;
    return std::shared_ptr<rendezvous::Rendezvous>(std::make_shared<SimulatedRendezvous>(
        world_, processes_, kind_.rendezvous, options.rdzv.rules.max_nodes,
        options.rdzv.rules.max_restarts));
  }

  void PlanSignals() {
    const milliseconds first =
        world_.Chance(50) ? world_.Between(0, 1500) : world_.Between(0, 30'000);
    // Some jobs would never end otherwise.
    world_.After(kPatience, [this] { CheckPatience(); });
    SendStop(world_.Chance(55) ? first : kPatience, world_.Chance(50) ? SIGTERM : SIGINT);
    if (world_.Chance(25)) SendStop(first + world_.Between(100, 5000), SIGINT);
    if (world_.Chance(10)) Send(world_.Between(0, 10'000), SIGTSTP);
    if (world_.Chance(10)) Send(world_.Between(0, 12'000), SIGCONT);
    if (!world_.Chance(10)) return;
    const milliseconds time = world_.Between(0, 12'000);
    kind_.plan.target.is_trainer_config ? SendStop(time, SIGUSR1) : Send(time, SIGUSR1);
  }
  void Send(milliseconds time, int signal) {
    world_.After(time, [this, signal] { agent_.OnSignal(signal, 0); });
  }
  void SendStop(milliseconds time, int signal) {
    world_.After(time, [this, signal] {
      world_.Note("ddprun is told to stop by " + SignalName(signal));
      const auto now = world_.clock.Now();
      if (!world_.stop_signal) {
        world_.stop_signal = signal;
        stopped_at_ = now;
      } else if (!world_.hurried && now - *stopped_at_ >= StopSignalPolicy::kSameRequest) {
        world_.hurried = now;
        processes_.CheckHurry();
      }
      agent_.OnSignal(signal, 0);
    });
  }

  std::string Screen() const {
    std::string text(static_cast<size_t>(::lseek(screen_.get(), 0, SEEK_END)), '\0');
    if (::pread(screen_.get(), text.data(), text.size(), 0) < 0) return "";
    return text;
  }

  void CheckPatience() {
    if (world_.stop_signal || processes_.unkillable_left()) return;
    if (!processes_.any_worker_lives()) return world_.Violate("the job waits for nothing");
    if (!kind_.plan.options.hang_timeout || processes_.any_worker_computes()) return;
    if (world_.clock.Now() > world_.generations.back().began + kPatience / 2) {
      world_.Violate("nobody has seen that the workers hang");
    }
  }

  void CheckTimes() {
    const auto now = world_.clock.Now();
    if (world_.hurried && now > *world_.hurried + kLongestEnd) world_.Violate("a hurry takes long");
    const auto grace = kind_.plan.grace().usual();
    if (stopped_at_ && now > *stopped_at_ + grace + kLongestEnd)
      world_.Violate("a stop takes long");
  }

  // Which exit codes are right, as far as that is told by what happened.
  std::set<int> RightCodes() const {
    const Options& options = kind_.plan.options;
    const Generation none;
    const bool joining = world_.generations.empty() || world_.generations.back().over;
    const Generation& last = joining ? none : world_.generations.back();
    const bool saves = kind_.plan.target.is_trainer_config;
    std::set<int> codes;
    if (world_.stop_signal && saves) codes.insert(StoppedCode(*world_.stop_signal));
    const bool lost = (last.failed || last.killing) && !options.several_nodes();
    if (world_.stop_signal && (!saves || lost)) {
      codes.insert(128 + *world_.stop_signal);
    }
    if (world_.peer_end == rendezvous::RoundEnd::Kind::kJobFailed) {
      codes.insert(kPeerCode);
      return codes;
    }
    const bool failed = last.failure_code || last.hung;
    const int code = last.failed ? 0 : last.first_nonzero.value_or(0);
    const int failure = last.hung ? kHangExitCode : last.failure_code.value_or(code);
    if (!world_.stop_signal) return {failure};
    if (failed && last.failed_before_stop && !world_.peer_end &&
        last.restart_count >= options.rdzv.rules.max_restarts) {
      return {failure};
    }
    if (saves) {
      if (!last.failed && !joining) codes.insert(code);
      return codes;
    }
    // It had ended well before the stop reached it.
    if (!last.told && !last.killing && !failed && !joining) codes.insert(0);
    if (last.first_nonzero && !options.several_nodes()) {
      // While a restart is under way its reason is forgotten at some point.
      if (!failed) codes.erase(128 + *world_.stop_signal);
      codes.insert(*last.first_nonzero);
    }
    return codes;
  }

  // Many codes are right; 0 is not if the last workers have not done their work.
  void CheckTrouble(int code) {
    if (code != 0) return;
    const bool none = world_.generations.empty() || world_.generations.back().over;
    if (none || world_.generations.back().failure_code || world_.generations.back().hung ||
        world_.generations.back().start_failed) {
      world_.Violate("a failure is passed over");
    }
  }

  void CheckCode(int code) {
    if (world_.trouble) return CheckTrouble(code);
    if (code == 0 && kind_.plan.options.several_nodes() && !world_.left && !world_.stop_signal) {
      world_.Violate("the node has gone although the others may need it");
    }
    const std::set<int> right = RightCodes();
    if (right.contains(code)) return;
    std::string text = "exit code " + std::to_string(code) + " instead of";
    for (const int other : right) text += " " + std::to_string(other);
    world_.Violate(text);
  }

  void CheckReport(int code, const std::string& report) {
    if (world_.trouble || world_.stop_signal || world_.peer_end || code == 0) return;
    const Generation& last = world_.generations.back();
    if (kind_.plan.target.is_trainer_config && !last.failed) return;  // saved and ended
    if (last.restart_count < kind_.plan.options.rdzv.rules.max_restarts) {
      world_.Violate("a restart that is left is not used");
    }
    if (last.hung) return;
    const size_t found = report.find("pid: ");
    const std::string pid = std::to_string(last.failure_pid);
    if (found == std::string::npos || report.compare(found + 5, pid.size(), pid) != 0) {
      world_.Violate("the report does not begin with the first failure, of process " + pid);
    }
  }

  World world_;
  const Kind kind_;
  const UniqueFd screen_;
  Console console_;
  SimulatedProcesses processes_;
  Agent agent_;
  std::optional<Clock::Time> stopped_at_;
};

}  // namespace

SimulatedEnd RunSimulatedJob(uint64_t seed,
                             const AgentTable& agent_table,
                             const GroupTable& group_table) {
  return Job(seed, agent_table, group_table).Run();
}

}  // namespace ddprun::launcher
