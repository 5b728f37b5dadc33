#include "launcher/agent/running_attempt.h"

#include <set>
#include <utility>

#include "launcher/cli/device_count.h"
#include "launcher/report/exit_text.h"

namespace ddprun::launcher {

RunningAttempt::RunningAttempt(const GroupSurroundings& surroundings,
                               const AgentPlan& plan,
                               const rendezvous::Membership& membership,
                               const JobOutput& output,
                               Handlers handlers)
    : surroundings_(surroundings),
      plan_(plan),
      shared_{.plan = plan, .membership = membership},
      output_(output),
      handlers_(std::move(handlers)),
      start_(surroundings.clock.Now()),
      program_(surroundings.processes, plan.target) {}

Status RunningAttempt::Start(TemplateHost* worker_template) {
  DDPRUN_ASSIGN(memory_, AttemptMemory::Create(plan_.local_world_size()));
  DDPRUN_ASSIGN(AttemptOutput output, output_.MakeAttempt(shared_.membership));
  shared_.error_folder = std::move(output.folder);
  shared_.node_memory_fd = memory_.node.get();
  shared_.flight_recorder_fd = memory_.recorder.get();
  shared_.usable_cores = UsableCores();
  template_ = worker_template;
  GroupHandlers handlers{.on_first_failure = [this](const WorkerRecord& w) { OnFirstFailure(w); },
                         .on_done = [this] { OnWorkersDone(); }};
  const bool replaces = plan_.target.is_trainer_config && plan_.options.rdzv.rules.max_restarts > 0;
  if (replaces) {
    handlers.find_replacement = [this](const auto& w, auto then) { lost_workers_->Find(w, then); };
  }
  group_.emplace(surroundings_,
                 GroupRules{.grace = plan_.grace(), .saves = plan_.target.is_trainer_config},
                 template_ != nullptr ? static_cast<WorkerStarter&>(*template_) : program_,
                 std::move(output.plan), *memory_.flight, std::move(handlers));
  const auto spec_of = [this](int local_rank) { return MakeWorkerSpec(shared_, local_rank); };
  if (replaces) {
    lost_workers_.emplace(
        surroundings_, plan_.options.rdzv, shared_.membership,
        Replacements(memory_.recorder, *memory_.flight, group_->workers(), handlers_.out_of_memory),
        LostWorkers::Handlers{[this] { return template_->ready(); }, spec_of, handlers_.on_stuck});
  }
  std::vector<WorkerSpec> specs;
  for (int local_rank = 0; local_rank < plan_.local_world_size(); ++local_rank) {
    specs.push_back(spec_of(local_rank));
  }
  if (template_ != nullptr) {
    surroundings_.log.Debug("asking the worker template to fork",
                            {{"workers", std::to_string(specs.size())}});
  }
  if (shared_.membership.stands_in && lost_workers_) {
    lost_workers_->ReplaceNode(std::move(specs), [this](const auto& s) { group_->Start(s); });
  } else {
    group_->Start(specs);
  }
  return {};
}

void RunningAttempt::Stop(int signal) {
  OnEnding();
  group_->Stop(signal);
}

void RunningAttempt::Kill() {
  OnEnding();
  group_->Kill();
}

void RunningAttempt::OnExit(pid_t pid, const ProcessExit& exit) {
  group_->OnExit(pid, exit);
  if (early_end_ && IsSuccess(exit, plan_.target.is_trainer_config)) early_end_->Begin();
}

void RunningAttempt::OnFirstFailure(const WorkerRecord& worker) {
  OnEnding();
  handlers_.on_first_failure(worker);
}

void RunningAttempt::OnEnding() {
  if (early_end_) early_end_->End();
  if (hang_guard_) hang_guard_->EndWatch();
  if (memory_.flight == nullptr || std::exchange(standings_noted_, true)) return;
  group_->workers().NoteActivities();
}

void RunningAttempt::OnWorkersDone() {
  std::set<pid_t> sessions;
  for (const WorkerRecord& worker : group_->workers().Records()) {
    sessions.insert(worker.pid);
    if (!worker.exit) unkillable_.push_back(worker.pid);
  }
  surroundings_.processes.EndStrays(std::move(sessions), [this](const std::vector<pid_t>& left) {
    unkillable_.insert(unkillable_.end(), left.begin(), left.end());
    gone_ = true;
    handlers_.on_gone();
  });
}

void RunningAttempt::WatchForHang(HangGuard::StoreOf store,
                                  std::function<void(const HangReport&)> on_hang) {
  EarlyEndWatch::Sources sources{.living = [this] { return group_->workers().Living(); },
                                 .ended = [this] { return group_->workers().EndedWell(); },
                                 .flight = memory_.flight.get()};
  if (one_node()) sources.store_waits = HangGuard::WaitsIn(store);
  early_end_.emplace(
      surroundings_.clock, std::move(sources),
      EarlyEndWatch::Handlers{
          .on_early_end = [this](const EarlyEnd& e) { group_->FailEnded(e.local_rank, e.left); },
          .on_all_wait = [this](const std::string& line) { surroundings_.log.Warning(line); }});
  if (!plan_.options.hang_timeout) return;
  hang_guard_.emplace(surroundings_, plan_, *group_, *memory_.flight, std::move(store),
                      std::move(on_hang));
}

std::optional<HangReport> RunningAttempt::hang() const {
  return hang_guard_ ? hang_guard_->report() : std::nullopt;
}

std::chrono::milliseconds RunningAttempt::lifetime() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(surroundings_.clock.Now() - start_);
}

}  // namespace ddprun::launcher
