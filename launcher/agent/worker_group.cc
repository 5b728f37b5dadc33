#include "launcher/agent/worker_group.h"

#include <signal.h>

#include <utility>

#include "launcher/report/exit_text.h"
#include "launcher/report/failure_report.h"

namespace ddprun::launcher {

namespace {

// A process that SIGKILL has not ended after this time is stuck in the kernel.
constexpr std::chrono::seconds kKillTimeout{10};

}  // namespace

WorkerGroup::WorkerGroup(const GroupSurroundings& surroundings,
                         const GroupRules& rules,
                         WorkerStarter& starter,
                         GroupOutputPlan output,
                         const FlightReader& flight,
                         GroupHandlers handlers)
    : surroundings_(surroundings),
      rules_(rules),
      handlers_(std::move(handlers)),
      starter_(starter),
      workers_(surroundings, rules.saves, std::move(output), flight),
      state_(surroundings.table) {}

void WorkerGroup::Start(const std::vector<WorkerSpec>& specs) {
  if (state_.phase() == GroupPhase::kDone) return;
  starter_.Start(specs,
                 {.open = [this, &specs](size_t index) { return workers_.Add(specs[index]); },
                  .on_started = [this](size_t index, pid_t pid) { Started(index, pid); },
                  .on_done =
                      [this](const Status& status) {
                        if (!status.ok()) return FailStart(status.error());
                        Apply(state_.On(GroupEvent::kStarted));
                      }});
}

void WorkerGroup::Replace(size_t index, const WorkerSpec& replacement) {
  const WorkerRecord& lost = workers_.record(index);
  surroundings_.log.Warning(WorkerName(lost) + " " + DescribeExit(*lost.exit) +
                            ": another process takes its place");
  starter_.Start(
      {&replacement, 1},
      {.open = [this, index](size_t) { return &workers_.fds(index); },
       .on_started = [this, index](size_t, pid_t pid) { Started(index, pid); },
       .on_done =
           [this, index](const Status& status) {
             if (status.ok()) {
               Apply(state_.On(GroupEvent::kStarted));
             } else {
               surroundings_.log.Debug("no other worker could be forked: " + status.error().what);
               Fail(index);
             }
             HandleNextLost();
           }});
}

void WorkerGroup::Started(size_t index, pid_t pid) {
  workers_.NoteStart(index, pid);
  if (!handlers_.find_replacement) workers_.CloseFds(index);
}

void WorkerGroup::FailStart(Error error) {
  start_error_ = std::move(error);
  surroundings_.log.Debug("workers could not be started: " + start_error_->what);
  workers_.DropUnstarted();
  const bool none = workers_.Living().empty();
  Apply(state_.On(none ? GroupEvent::kAllGone : GroupEvent::kKillAsked));
}

void WorkerGroup::Stop(int signal) {
  if (state_.phase() == GroupPhase::kRunning) {
    stop_signal_ = signal;
    saving_ = rules_.saves && signal != SIGABRT;
    workers_.NoteStop(surroundings_.clock.Now());
  }
  Apply(state_.On(GroupEvent::kStopAsked));
}

void WorkerGroup::OnExit(pid_t pid, const ProcessExit& exit) {
  const std::optional<size_t> index = workers_.NoteExit(pid, exit);
  if (!index) return;
  if (!IsSuccess(exit, rules_.saves)) {
    return std::holds_alternative<Signaled>(exit) ? HandleLost(*index) : Fail(*index);
  }
  ApplyIfAllGone();
}

void WorkerGroup::HandleLost(size_t index) {
  if (state_.phase() != GroupPhase::kRunning || !handlers_.find_replacement) return Fail(index);
  handlers_.find_replacement(workers_.record(index), [this, index](auto replacement) {
    lost_.emplace_back(index, std::move(replacement));
    HandleNextLost();
  });
}

void WorkerGroup::HandleNextLost() {
  while (!lost_.empty() && !starter_.is_busy()) {
    const auto [index, replacement] = std::move(lost_.front());
    lost_.pop_front();
    const bool starts = replacement && state_.On(GroupEvent::kWorkerLost) == GroupAction::kReplace;
    starts ? Replace(index, *replacement) : Fail(index);
  }
}

void WorkerGroup::Fail(size_t index) {
  const GroupPhase before = state_.phase();
  const GroupAction action = state_.On(WhenOneFails());
  const WorkerRecord& record = workers_.record(index);
  if (before != state_.phase()) {
    if (before == GroupPhase::kRunning) {
      NoteFailure(index);
    } else {
      surroundings_.log.Warning(WorkerName(record) + " " + DescribeExit(*record.exit) +
                                " instead of saving; the others are ended");
    }
  }
  Apply(action);
  ApplyIfAllGone();
}

void WorkerGroup::ApplyIfAllGone() {
  if (workers_.Living().empty() && !starter_.is_busy()) Apply(state_.On(GroupEvent::kAllGone));
}

GroupEvent WorkerGroup::WhenOneFails() const {
  const bool others_wait = rules_.saves && (saving_ || state_.phase() == GroupPhase::kRunning);
  return others_wait ? GroupEvent::kKillAsked : GroupEvent::kWorkerFailed;
}

void WorkerGroup::NoteFailure(size_t index) {
  if (first_failure_) return;
  first_failure_ = index;
  failure_time_ = workers_.record(index).ended_at;
  workers_.NoteStop(surroundings_.clock.Now());
  handlers_.on_first_failure(workers_.CatchUp(index));
}

void WorkerGroup::FailEnded(int local_rank, std::string left) {
  if (state_.phase() != GroupPhase::kRunning) return;
  for (size_t i = 0; i < workers_.size(); ++i) {
    WorkerRecord& record = workers_.record(i);
    if (record.local_rank != local_rank || !record.exit) continue;
    record.left = std::move(left);
    const GroupAction action = state_.On(WhenOneFails());
    NoteFailure(i);
    return Apply(action);
  }
}

void WorkerGroup::Apply(GroupAction action) {
  switch (action) {
    case GroupAction::kNone:
    case GroupAction::kReplace:  // HandleLost() calls Replace()
      return;
    case GroupAction::kStop:
      workers_.TellToStop(stop_signal_);
      return ArmTimer(rules_.grace.Of(stop_signal_));
    case GroupAction::kKill:
      workers_.TellToStop(SIGKILL);
      starter_.Kill();
      return ArmTimer(kKillTimeout);
    case GroupAction::kFinish:
    case GroupAction::kGiveUp:
      alarm_ = surroundings_.clock.Set({}, handlers_.on_done);
      return;
  }
}

void WorkerGroup::ArmTimer(std::chrono::milliseconds time) {
  alarm_ = surroundings_.clock.Set(time, [this] {
    if (saving_ && state_.phase() == GroupPhase::kStopping) {
      surroundings_.log.Warning(
          "the workers have not saved and ended in time (--shutdown_timeout) and are killed: what "
          "they did since the last checkpoint is lost");
    }
    Apply(state_.On(GroupEvent::kGraceOver));
  });
}

}  // namespace ddprun::launcher
