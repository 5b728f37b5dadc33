#include "launcher/agent/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "launcher/cli/device_count.h"
#include "launcher/report/job_end.h"
#include "launcher/report/peer_message.h"
#include "rendezvous/static_rendezvous.h"

namespace ddprun::launcher {

namespace {

// torchrun's default port for several nodes, which all of them must know beforehand.
constexpr uint16_t kDefaultPort = 29500;

rendezvous::StaticOptions RendezvousOptions(const AgentPlan& plan, const Log& log) {
  const Options& options = plan.options;
  const bool several = options.several_nodes();
  rendezvous::StaticOptions result;
  result.nnodes = options.max_nodes;
  result.node_rank = options.node_rank.value_or(0);
  result.local_world_size = plan.local_world_size;
  result.run_id = plan.run_id;
  result.endpoint = {options.master_addr, options.master_port.value_or(several ? kDefaultPort : 0)};
  result.on_progress = [&log](const std::string& line) { log.Info(line); };
  return result;
}

}  // namespace

Agent::Agent(AgentPlan plan, const SignalMask& mask, Guard& guard)
    : plan_(std::move(plan)),
      mask_(mask),
      guard_(guard),
      console_(io_, STDOUT_FILENO, STDERR_FILENO),
      log_("ddprun n" + std::to_string(node_rank()),
           ParseLogLevel(plan_.env.GetOr("LOGLEVEL", "")),
           [this](std::string_view line) { console_.err().WriteLines(line); }),
      processes_(io_, mask) {}

Agent::~Agent() = default;

int Agent::Run() {
  if (Status begun = Begin(); !begun.ok()) FailWith(std::move(begun).error());
  if (!exit_code_) io_.run();
  CleanUp();
  return exit_code_.value_or(1);
}

Status Agent::Begin() {
  DDPRUN_ASSIGN(signals_, SignalReader::Create(io_, mask_, [this](int signal, pid_t sender) {
                  OnSignal(signal, sender);
                }));
  processes_.OnExit([this](pid_t pid, const ProcessExit& exit) { OnExit(pid, exit); });
  DDPRUN_ASSIGN(output_, JobOutput::Create({.options = &plan_.options,
                                            .env = &plan_.env,
                                            .local_world_size = plan_.local_world_size,
                                            .is_trainer_config = plan_.target.is_trainer_config,
                                            .run_id = plan_.run_id,
                                            .host = plan_.host,
                                            .job_folder = plan_.job_folder},
                                           console_, log_));
  // It loads LibTorch while the nodes find each other.
  if (plan_.target.is_trainer_config) DDPRUN_TRY(StartTemplate());
  DDPRUN_ASSIGN(rendezvous_,
                rendezvous::StaticRendezvous::Create(io_, RendezvousOptions(plan_, log_)));
  rendezvous_->Join(
      [this](Result<rendezvous::Membership> membership) { OnJoined(std::move(membership)); });
  return {};
}

Status Agent::StartTemplate() {
  // Threads are counted when OpenMP is loaded, so this has to be known before the fork.
  template_env_ = plan_.env;
  if (!plan_.env.Get("OMP_NUM_THREADS")) {
    const int threads = std::max(1, UsableCores() / plan_.local_world_size);
    template_env_.Set("OMP_NUM_THREADS", std::to_string(threads));
  }
  template_env_.Set("DDPRUN_JOB_ID", plan_.job_id);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("opening a pipe", errno);
  template_stderr_ = WorkerStream::Start(io_, UniqueFd(ends[0]), {.console = &console_.err()});
  const UniqueFd write_end(ends[1]);
  guard_.WatchPipe(write_end.get());
  DDPRUN_ASSIGN(template_, TemplateClient::Start(io_, processes_,
                                                 SpawnRequest{.name = plan_.target.program,
                                                              .program = plan_.target.program,
                                                              .argv = plan_.target.argv,
                                                              .env = template_env_.Entries(),
                                                              .stderr_fd = write_end.get()}));
  guard_.Watch(template_->pid());
  template_->WhenReady([this] {
    template_ready_ = true;
    StartWorkersIfReady();
  });
  return {};
}

void Agent::OnSignal(int signal, pid_t sender) {
  if (signal == SIGCHLD) return processes_.OnChildSignal();
  if (signal == SIGUSR1 || signal == SIGUSR2) {
    if (group_ != nullptr) group_->Pass(signal);
    return;
  }
  const StopPatience::Meaning meaning = patience_.Note(std::chrono::steady_clock::now());
  if (phase_ == Phase::kReporting) return io_.stop();
  if (meaning == StopPatience::Meaning::kRepeat) return;
  if (meaning == StopPatience::Meaning::kHurry) {
    if (phase_ != Phase::kRunning) return Finish(128 + signal);
    return group_->Hurry();
  }
  stop_signal_ = signal;
  const std::string from = sender > 0 ? " from pid " + std::to_string(sender) : "";
  const bool running = phase_ == Phase::kRunning;
  log_.Info("got " + SignalName(signal) + from +
            (running ? ", stopping the workers; a second one ends them at once" : ", leaving"));
  TellPeers(128 + signal, "node " + std::to_string(node_rank()) + " (" + plan_.host +
                              ") was stopped by " + SignalName(signal));
  if (phase_ == Phase::kRunning) return group_->Stop(signal);
  Finish(128 + signal);
}

void Agent::OnExit(pid_t pid, const ProcessExit& exit) {
  if (template_ != nullptr && pid == template_->pid()) return OnTemplateExit(exit);
  if (group_ != nullptr) group_->OnExit(pid, exit);
}

void Agent::OnTemplateExit(const ProcessExit& exit) {
  guard_.Forget(template_->pid());
  // With an exit code of its own it has said on standard error why.
  if (std::holds_alternative<Exited>(exit) && ExitCode(exit) != 0) {
    template_exit_code_ = ExitCode(exit);
  }
  // Workers that exist go on without it; if they are just being forked, the group is told.
  if (phase_ != Phase::kJoining) return template_->OnExit(exit);
  FailWithTemplate(Error{
      .code = Code::kFailed,
      .title = "WORKER TEMPLATE FAILED",
      .where = plan_.target.name,
      .what = plan_.target.program + " " + DescribeExit(exit) + " before it could fork workers.",
      .hint = "",
      .page = "template-failed"});
}

void Agent::FailWithTemplate(Error error) {
  if (!template_exit_code_) return FailWith(std::move(error));
  TellPeers(*template_exit_code_, "node " + std::to_string(node_rank()) + " (" + plan_.host +
                                      ") could not start its workers");
  Finish(*template_exit_code_);
}

void Agent::OnJoined(Result<rendezvous::Membership> membership) {
  if (!membership) return FailWith(std::move(membership).error());
  membership_ = *std::move(membership);
  if (several_nodes()) {
    log_.Info("all nodes joined", {{"nnodes", std::to_string(membership_->nnodes)},
                                   {"world_size", std::to_string(membership_->world_size)}});
    rendezvous_->WatchRound([this](const rendezvous::RoundEnd& failure) { OnRoundEnd(failure); });
  }
  StartWorkersIfReady();
}

void Agent::OnRoundEnd(const rendezvous::RoundEnd& failure) {
  peer_failure_ = failure;
  if (phase_ == Phase::kRunning) return group_->Stop(SIGTERM);
  Finish(DecodePeerMessage(failure.message).exit_code);
}

void Agent::StartWorkersIfReady() {
  if (!membership_ || exit_code_ || (plan_.target.is_trainer_config && !template_ready_)) return;
  if (Status started = StartWorkers(); !started.ok()) FailWith(std::move(started).error());
}

Status Agent::StartWorkers() {
  node_memory_ = UniqueFd(::memfd_create("ddprun-node-memory", MFD_CLOEXEC));
  if (!node_memory_.valid()) return SystemError("creating the node's shared memory", errno);
  DDPRUN_ASSIGN(AttemptOutput output, output_->MakeAttempt(*membership_));
  const Attempt attempt{.membership = *membership_,
                        .local_world_size = plan_.local_world_size,
                        .job_id = plan_.job_id,
                        .run_id = plan_.run_id,
                        .error_folder = output.folder,
                        .node_memory_fd = node_memory_.get(),
                        .usable_cores = UsableCores()};
  std::vector<WorkerSpec> specs;
  for (int local_rank = 0; local_rank < plan_.local_world_size; ++local_rank) {
    specs.push_back(MakeWorkerSpec(plan_.target, attempt, local_rank, plan_.env));
  }
  group_ = std::make_unique<WorkerGroup>(
      GroupSurroundings{io_, processes_, guard_, console_, log_}, plan_.options.shutdown_timeout,
      GroupHandlers{.on_first_failure = [this](const WorkerRecord& w) { OnFirstFailure(w); },
                    .on_done = [this] { OnGroupDone(); }});
  phase_ = Phase::kRunning;
  if (template_ != nullptr) {
    // The template gives each worker the number of the descriptor that it passes on.
    for (WorkerSpec& spec : specs) spec.env.Unset("DDPRUN_NODE_MEMORY_FD");
    group_->StartFromTemplate(*template_, template_env_, specs, std::move(output.plan), node_memory_.get());
  } else {
    group_->Start(plan_.target, specs, std::move(output.plan), node_memory_.get());
  }
  return {};
}

void Agent::OnFirstFailure(const WorkerRecord& worker) {
  TellPeers(ExitCode(*worker.exit), Summarize(worker, plan_.host));
}

void Agent::TellPeers(int exit_code, const std::string& text) {
  if (!several_nodes() || !membership_ || telling_peers_) return;
  telling_peers_ = true;
  rendezvous_->EndRound(rendezvous::RoundEnd::Kind::kJobFailed,
                        EncodePeerMessage({exit_code, text}), [this] {
                          telling_peers_ = false;
                          if (exit_code_) io_.stop();
                        });
}

void Agent::OnGroupDone() {
  if (group_->start_error()) return FailWithTemplate(*group_->start_error());
  const bool well = !group_->first_failure() && !stop_signal_ && !peer_failure_;
  if (!well) return Finish(ExitCodeAfterGroup());
  phase_ = Phase::kLeaving;
  if (!several_nodes()) return Finish(0);
  rendezvous_->Leave([this](const Status& left) { OnLeft(left); });
}

void Agent::OnLeft(const Status& left) {
  if (left.ok()) return Finish(0);
  FailWith(left.error());
}

int Agent::ExitCodeAfterGroup() const {
  // A failure that the rendezvous passes on came before our own: the first note stays.
  if (peer_failure_) return DecodePeerMessage(peer_failure_->message).exit_code;
  if (group_->first_failure()) {
    return ExitCode(*group_->Records()[*group_->first_failure()].exit);
  }
  return group_->first_nonzero_code().value_or(128 + stop_signal_.value_or(SIGTERM));
}

void Agent::FailWith(Error error) {
  const int code = ExitStatus(error.code);
  TellPeers(code,
            "node " + std::to_string(node_rank()) + " (" + plan_.host + ") failed: " + error.what);
  error_ = std::move(error);
  Finish(code);
}

void Agent::Finish(int exit_code) {
  if (!exit_code_) exit_code_ = exit_code;
  if (!telling_peers_) io_.stop();
}

void Agent::CleanUp() {
  template_.reset();
  rendezvous_.reset();
  unkillable_ = processes_.SweepDescendants(guard_.pid());
  if (template_stderr_ != nullptr) template_stderr_->Finish();
  if (group_ != nullptr) group_->FinishOutput();
  phase_ = Phase::kReporting;
  console_.err().WriteLines(Report());
  io_.restart();
  console_.WhenEmpty([this] { io_.stop(); });
  io_.run();
}

std::string Agent::Report() const {
  JobEnd end{.program = plan_.target.name,
             .host = plan_.host,
             .error = error_,
             .peer_failure = peer_failure_,
             .stop_signal = stop_signal_,
             .unkillable = unkillable_};
  if (group_ != nullptr) {
    end.workers = group_->Records();
    end.first_failure = group_->first_failure();
    end.failure_time = group_->first_failure_time();
  }
  return RenderJobEnd(end, plan_.color);
}

}  // namespace ddprun::launcher
