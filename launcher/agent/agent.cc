#include "launcher/agent/agent.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include <asio/post.hpp>

#include "base/text.h"
#include "launcher/agent/agent_log.h"
#include "launcher/agent/last_words.h"
#include "launcher/hang/hang_report.h"

namespace ddprun::launcher {

using Kind = rendezvous::RoundEnd::Kind;

Agent::Agent(AgentPlan plan, const AgentSurroundings& surroundings)
    : plan_(std::move(plan)),
      surroundings_(surroundings),
      log_(AgentLogOptions(plan_),
           [this](std::string_view line) { surroundings_.console.err().WriteLines(line); }),
      stop_policy_(plan_.env.Get("SLURM_JOB_ID").has_value()),
      history_(plan_.host, plan_.job_folder),
      state_(surroundings_.agent_table),
      causes_({.own_node_rank = plan_.options.rdzv.node_rank.value_or(0),
               .several_nodes = plan_.options.several_nodes(),
               .saves = plan_.target.is_trainer_config}),
      ending_(log_, plan_.options.several_nodes(), [this] { PostIfSettled(); }) {}

Agent::~Agent() = default;

GroupSurroundings Agent::Surroundings() const {
  const AgentSurroundings& s = surroundings_;
  return {s.io, s.clock, s.processes, s.console, log_, s.group_table, s.readers, s.open_losses};
}

void Agent::Start() {
  if (Status begun = Begin(); !begun.ok()) {
    causes_.error = std::move(begun).error();
    On(AgentEvent::kEndAsked);
  }
}

Status Agent::Begin() {
  DDPRUN_TRY(CopyToLogFile(plan_, surroundings_.console, log_));
  LogBegin(plan_, log_);
  surroundings_.processes.OnExit([this](pid_t pid, const ProcessExit& exit) { OnExit(pid, exit); });
  DDPRUN_ASSIGN(output_, JobOutput::Create(plan_, surroundings_.console, log_));
  if (!plan_.target.template_argv.empty()) {
    template_ = std::make_unique<TemplateHost>(
        Surroundings(), plan_,
        TemplateHost::Events{.on_ready = [this] { StartIfReady(); },
                             .on_lost = [this](const Error& e) { OnTemplateLost(e); }});
  }
  DDPRUN_ASSIGN(rendezvous_, surroundings_.open_rendezvous(plan_, log_));
  Join();
  return {};
}

void Agent::Do(AgentAction action) {
  switch (action) {
    case AgentAction::kNone:
      return;
    case AgentAction::kStartWorkers:
      return StartWorkers();
    case AgentAction::kStopWorkers:
      return StopWorkers();
    case AgentAction::kKillWorkers:
      return KillWorkers();
    case AgentAction::kLeave:
      return Leave();
    case AgentAction::kJoin:
      return JoinAgain();
    case AgentAction::kFinish:
      return surroundings_.io.stop();
  }
}

void Agent::OnSignal(int signal, pid_t sender) {
  const std::vector<int>& stop = plan_.options.signals_to_handle;
  const bool warning = plan_.target.is_trainer_config && (signal == SIGUSR1 || signal == SIGUSR2);
  if (warning || std::find(stop.begin(), stop.end(), signal) != stop.end()) {
    return OnStopSignal(signal, sender);
  }
  if (attempt_ == nullptr) return;
  // Ctrl-Z. The workers do not get it from the terminal, because they have sessions of their own.
  // SIGSTOP replaces SIGTSTP, because a group whose parent is in another session ignores SIGTSTP.
  if (signal == SIGTSTP) return attempt_->group().workers().SignalWithChildren(SIGSTOP);
  if (signal == SIGCONT) return attempt_->group().workers().SignalWithChildren(SIGCONT);
  if (signal == SIGWINCH) attempt_->group().workers().FollowTerminal();
  attempt_->Signal(signal);
}

void Agent::OnStopSignal(int signal, pid_t sender) {
  const StopSignalPolicy::Meaning meaning =
      stop_policy_.Classify(signal, surroundings_.clock.Now());
  if (meaning == StopSignalPolicy::Meaning::kRepeat) return;
  if (meaning == StopSignalPolicy::Meaning::kHurry) return On(AgentEvent::kKillAsked);
  causes_.stop_signal = signal;
  const bool running = attempt_ != nullptr && !attempt_->gone();
  const bool saves = plan_.target.is_trainer_config && signal != SIGQUIT;
  LogStopSignal(plan_, signal, sender, running, saves, log_);
  if (membership_ && plan_.options.several_nodes()) {
    const int code = saves ? StoppedCode(signal) : 128 + signal;
    ending_.Withdraw(*rendezvous_, {.message = StopMessage(Name(), signal), .exit_code = code});
  }
  On(AgentEvent::kEndAsked);
}

void Agent::OnExit(pid_t pid, const ProcessExit& exit) {
  if (template_ != nullptr && template_->OnExit(pid, exit)) return;
  if (attempt_ != nullptr) attempt_->OnExit(pid, exit);
}

bool Agent::may_restart() const {
  return EndAfterFailure(membership_ ? membership_->restart_count : 0,
                         plan_.options.rdzv.rules.max_restarts) == Kind::kRestart;
}

void Agent::OnTemplateLost(const Error& error) {
  if (template_->refusal()) return OnCannotContinue(error);
  // Workers continue without their template, and the next round starts another one.
  if (state_.phase() != AgentPhase::kJoining) return;
  if (template_renewed_ || !may_restart()) return OnCannotContinue(error);
  template_renewed_ = true;
  log_.Warning(error.what + " Another one is started.");
  StartTemplate();
}

void Agent::StartTemplate() {
  if (Status started = template_->EnsureRunning(); !started.ok()) {
    FailWith(std::move(started).error());
  }
}

void Agent::Join() {
  // The template loads LibTorch while the nodes meet.
  if (template_ != nullptr && !causes_.error) StartTemplate();
  if (state_.phase() != AgentPhase::kJoining) return;
  log_.Debug("joining", {{"backend", plan_.options.rdzv_backend}, {"run_id", plan_.run_id()}});
  rendezvous_->Join(
      [this](Result<rendezvous::Membership> membership) { OnJoined(std::move(membership)); });
}

void Agent::OnJoined(Result<rendezvous::Membership> membership) {
  if (!membership) {
    log_.Debug("not joined: " + membership.error().what);
    if (!causes_.error && !causes_.refusal) causes_.error = std::move(membership).error();
    return On(AgentEvent::kEndAsked);
  }
  membership_ = *std::move(membership);
  causes_.own_node_rank = membership_->node_rank;
  has_joined_ = true;
  log_.Rename(LogName(membership_->node_rank));
  LogJoined(plan_, *membership_, log_);
  rendezvous_->WatchRound([this](const rendezvous::RoundEnd& end) { OnRoundEnd(end); });
  rendezvous_->WhenNodeIsLost([this] { return attempt_ && attempt_->CanOutliveNode(); });
  if (causes_.error) return OnCannotContinue(*causes_.error);
  StartIfReady();
}

void Agent::StartIfReady() {
  if (membership_ && (template_ == nullptr || template_->ready())) On(AgentEvent::kReady);
}

void Agent::StartWorkers() {
  history_.BeginAttempt(*membership_);
  attempt_ = std::make_unique<RunningAttempt>(
      Surroundings(), plan_, *membership_, *output_,
      RunningAttempt::Handlers{
          .on_first_failure = [this](const WorkerRecord& worker) { OnFirstFailure(worker); },
          .on_stuck = [this](const auto& why) { RestartOrEnd({.message = Name() + ": " + why}); },
          .on_gone = [this] { OnAttemptGone(); },
          .out_of_memory = [this](const WorkerRecord& w) { return history_.RanOutOfMemory(w); }});
  if (Status started = attempt_->Start(template_.get()); !started.ok()) {
    attempt_.reset();
    return FailWith(std::move(started).error());
  }
  attempt_->WatchForHang([this] { return rendezvous_->worker_store(); },
                         [this](const HangReport& report) { OnHang(report); });
}

void Agent::OnFirstFailure(const WorkerRecord& worker) {
  RestartOrEnd(history_.RoundEndBy(worker));
}

void Agent::OnHang(const HangReport& report) {
  log_.Warning(Summarize(report) + "; asking the workers for their stacks");
  RestartOrEnd({.message = Name() + ": " + Summarize(report), .exit_code = kHangExitCode});
}

void Agent::RestartOrEnd(rendezvous::RoundEnd end) {
  const bool restart = may_restart();
  if (restart) end.kind = Kind::kRestart;
  ending_.End(*rendezvous_, *membership_, std::move(end));
  On(restart ? AgentEvent::kRestartAsked : AgentEvent::kEndAsked);
}

void Agent::OnRoundEnd(const rendezvous::RoundEnd& end) {
  ending_.NoteEnd(end);
  log_.Debug("the round was ended", {{"by_node", std::to_string(end.node_rank)},
                                     {"kind", std::string(NameOf(end.kind))},
                                     {"message", end.message}});
  LimitStop();
  // This node ends for its own reason. The others continue without it if they can.
  if (causes_.stop_signal || causes_.error) return;
  On(end.kind == Kind::kJobFailed ? AgentEvent::kEndAsked : AgentEvent::kRestartAsked);
}

// Kills the workers in time if others may start new ones.
void Agent::LimitStop() {
  if (attempt_ == nullptr || !ending_.end() || !ending_.end()->stop_within) return;
  alarm_ = surroundings_.clock.Set(*ending_.end()->stop_within, [this] { attempt_->Kill(); });
}

void Agent::OnAttemptGone() {
  if (!attempt_->unkillable().empty()) {
    log_.Warning("SIGKILL did not end these processes: " + FormatList(attempt_->unkillable(), " "));
  }
  // If the round is ending, workers that did not start are no error.
  const std::optional<Error>& start_error = attempt_->group().start_error();
  if (start_error && !settling()) OnCannotStart(*start_error);
  On(AgentEvent::kSucceeded);
  PostIfSettled();
}

void Agent::OnCannotStart(const Error& error) {
  const bool killed = template_ != nullptr && !template_->ready() && !template_->refusal();
  if (!killed || !may_restart()) return OnCannotContinue(error);
  RestartOrEnd({.message = Name() + ": " + error.what, .exit_code = ExitStatus(error.code)});
}

void Agent::Leave() {
  if (!plan_.options.several_nodes()) {
    return asio::post(surroundings_.io, [this] { On(AgentEvent::kLeft); });
  }
  log_.Debug("the workers here have ended well; waiting for those of the other nodes");
  rendezvous_->Leave([this](const Status& left) {
    if (left.ok()) return On(AgentEvent::kLeft);
    FailWith(left.error());
  });
  const auto limit = plan_.options.exit_barrier_timeout;
  if (limit) alarm_ = surroundings_.clock.Set(*limit, [this] { OnExitBarrierTime(); });
}

void Agent::OnExitBarrierTime() {
  const bool alone = rendezvous_->may_go();
  log_.Warning(ExitBarrierLine(*plan_.options.exit_barrier_timeout, alone));
  if (alone) On(AgentEvent::kLeft);
}

void Agent::StopWorkers() {
  alarm_.reset();
  if (attempt_ != nullptr) {
    if (!plan_.target.is_trainer_config) {
      attempt_->Stop(causes_.stop_signal.value_or(SIGTERM));
    } else if (const JobCauses causes = Causes(); StopsGently(causes)) {
      attempt_->Stop(SaveSignal(causes));
    } else {
      attempt_->Kill();
    }
  }
  LimitStop();
  PostIfSettled();
}

void Agent::KillWorkers() {
  alarm_.reset();
  if (attempt_ != nullptr) attempt_->Kill();
  ending_.StopWaiting();
  PostIfSettled();
}

void Agent::JoinAgain() {
  CloseAttempt();
  for (const auto& line : RestartLines(plan_, *membership_, *ending_.end())) log_.Warning(line);
  std::chrono::milliseconds pause{0};
  if (attempt_ != nullptr && ending_.end()->kind == Kind::kRestart) {
    pause = crash_loop_.PauseAfter(attempt_->lifetime());
  }
  attempt_.reset();
  membership_.reset();
  ending_.Reset();
  template_renewed_ = false;
  alarm_ = surroundings_.clock.Set(pause, [this] { Join(); });
}

void Agent::FailWith(Error error) {
  causes_.error = std::move(error);
  OnCannotContinue(*causes_.error);
}

void Agent::OnCannotContinue(const Error& error) {
  // A template that refused its work has printed the reason on standard error.
  if (template_ != nullptr) causes_.refusal = template_->refusal();
  if (!causes_.error) causes_.error = error;
  // This node joins nevertheless, because it has to tell the other nodes.
  if (!membership_ && plan_.options.several_nodes()) return;
  const std::string what =
      causes_.refusal ? " could not start its workers" : " failed: " + causes_.error->what;
  if (membership_) {
    const int code = causes_.refusal.value_or(ExitStatus(causes_.error->code));
    ending_.End(*rendezvous_, *membership_, {.message = Name() + what, .exit_code = code});
  }
  On(AgentEvent::kEndAsked);
}

void Agent::PostIfSettled() {
  // Posts the event, because its action may destroy the object that calls this.
  asio::post(surroundings_.io, [this] {
    const bool gone = attempt_ == nullptr || attempt_->gone();
    if (settling() && gone && ending_.is_known()) On(AgentEvent::kSettled);
  });
}

int Agent::Finish() {
  if (template_ != nullptr) template_->Close();
  rendezvous_.reset();
  causes_.unkillable = surroundings_.processes.EndAll();
  if (template_ != nullptr) template_->FinishOutput();
  CloseAttempt();
  JobEnd end = DescribeEnd(plan_, Causes(), history_);
  if (!plan_.options.report_file.empty()) end.log = log_.LastLines();
  // If the back end assigns ranks, a rank that this node only asked for may be another node's.
  end.has_node_rank = has_joined_ || plan_.options.backend->fixed || !plan_.options.several_nodes();
  ReportJobEnd(plan_, end, surroundings_.console, log_);
  return end.exit_code;
}

void Agent::CloseAttempt() {
  if (attempt_ == nullptr) return;
  attempt_->group().workers().FinishOutput();
  history_.EndAttempt(*attempt_, ending_.end());
  if (const auto hang = attempt_->hang()) ReportHang(plan_, *hang, surroundings_.console);
}

JobCauses Agent::Causes() const {
  JobCauses causes = causes_;
  causes.round_end = ending_.end();
  if (attempt_ != nullptr) AddAttempt(*attempt_, causes);
  return causes;
}

bool Agent::settling() const {
  return state_.phase() == AgentPhase::kRestarting || state_.phase() == AgentPhase::kEnding;
}

std::string Agent::Name() const {
  return "node " + std::to_string(causes_.own_node_rank) + " (" + plan_.host + ")";
}

}  // namespace ddprun::launcher
