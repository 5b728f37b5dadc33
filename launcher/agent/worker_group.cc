#include "launcher/agent/worker_group.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "launcher/report/exit_text.h"

namespace ddprun::launcher {

namespace {

// A process that SIGKILL has not ended after this time is stuck in the kernel.
constexpr std::chrono::seconds kKillTimeout{10};

bool IsPipe(int fd) {
  struct stat info {};
  return fd >= 0 && ::fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode);
}

}  // namespace

WorkerGroup::WorkerGroup(const GroupSurroundings& surroundings,
                         const GroupRules& rules,
                         GroupHandlers handlers)
    : surroundings_(surroundings),
      rules_(rules),
      handlers_(std::move(handlers)),
      state_(surroundings.table) {}

void WorkerGroup::Start(const std::vector<WorkerSpec>& specs,
                        WorkerStarter& starter,
                        GroupOutputPlan output) {
  output_.emplace(surroundings_.io, surroundings_.console, std::move(output),
                  [&log = surroundings_.log](const std::string& text) { log.Warning(text); });
  starter_ = &starter;
  starter.Start(specs, {.open = [this, &specs](size_t index) { return Add(specs[index]); },
                        .on_started = [this](size_t index, pid_t pid) { Started(index, pid); },
                        .on_done =
                            [this](const Status& status) {
                              if (!status.ok()) return FailStart(status.error());
                              Apply(state_.On(GroupEvent::kStarted));
                            }});
}

Result<const WorkerFds*> WorkerGroup::Add(const WorkerSpec& spec) {
  DDPRUN_ASSIGN(WorkerFds fds, output_->Open(spec.local_rank));
  for (const UniqueFd* fd : {&fds.out, &fds.err}) {
    if (IsPipe(fd->get())) surroundings_.processes.MarkPipe(fd->get());
  }
  Worker& worker = workers_.emplace_back();
  worker.record.rank = spec.rank;
  worker.record.local_rank = spec.local_rank;
  worker.record.error_file = spec.error_file;
  worker.fds = std::move(fds);
  return &worker.fds;
}

void WorkerGroup::Replace(size_t index, const WorkerSpec& replacement) {
  const WorkerRecord& lost = workers_[index].record;
  surroundings_.log.Warning(WorkerName(lost) + " " + DescribeExit(*lost.exit) +
                            ": another process takes its place");
  starter_->Start(
      {&replacement, 1},
      {.open = [this, index](size_t) { return &workers_[index].fds; },
       .on_started = [this, index](size_t, pid_t pid) { Started(index, pid); },
       .on_done =
           [this, index](const Status& status) {
             if (status.ok()) {
               Apply(state_.On(GroupEvent::kStarted));
             } else {
               surroundings_.log.Debug("no other worker could be forked: " + status.error().what);
               Fail(index);
             }
             LoseNext();
           }});
}

void WorkerGroup::Started(size_t index, pid_t pid) {
  if (!replacement_of_) workers_[index].fds = {};
  WorkerRecord& record = workers_[index].record;
  record.exit.reset();
  record.pid = pid;
  record.started_at = std::chrono::system_clock::now();
  surroundings_.log.Debug("worker started", {{"rank", std::to_string(record.rank)},
                                             {"local_rank", std::to_string(record.local_rank)},
                                             {"pid", std::to_string(pid)}});
}

void WorkerGroup::FailStart(Error error) {
  start_error_ = std::move(error);
  surroundings_.log.Debug("workers could not be started: " + start_error_->what);
  // Drops workers that were never started.
  std::erase_if(workers_, [](const Worker& worker) { return worker.record.pid == 0; });
  const bool none = NumAlive() == 0;
  Apply(state_.On(none ? GroupEvent::kAllGone : GroupEvent::kHurryAsked));
}

void WorkerGroup::Stop(int signal) {
  if (state_.phase() == GroupPhase::kRunning) {
    stop_signal_ = signal;
    saving_ = rules_.saves && signal != SIGABRT;
    stop_time_ = surroundings_.clock.Now();
  }
  Apply(state_.On(GroupEvent::kStopAsked));
}

void WorkerGroup::Pass(int signal) {
  for (const Worker& worker : workers_) {
    if (worker.record.pid != 0) surroundings_.processes.Signal(worker.record.pid, signal);
  }
}

void WorkerGroup::PassToAll(int signal) {
  for (const Worker& worker : workers_) {
    if (worker.record.pid != 0) surroundings_.processes.SignalGroup(worker.record.pid, signal);
  }
}

void WorkerGroup::OnExit(pid_t pid, const ProcessExit& exit) {
  const auto worker = std::find_if(workers_.begin(), workers_.end(), [pid](const Worker& w) {
    return w.record.pid == pid && !w.record.exit;
  });
  if (worker == workers_.end()) return;
  surroundings_.log.Debug(
      "worker " + DescribeExit(exit),
      {{"rank", std::to_string(worker->record.rank)}, {"pid", std::to_string(pid)}});
  worker->record.exit = exit;
  worker->record.ended_at = std::chrono::system_clock::now();
  worker->ended_at = surroundings_.clock.Now();
  const int code = ExitCode(exit);
  if (code != 0 && !first_nonzero_code_ && std::holds_alternative<Exited>(exit)) {
    first_nonzero_code_ = code;
  }
  const auto index = static_cast<size_t>(worker - workers_.begin());
  if (!EndsWell(exit, rules_.saves)) {
    return std::holds_alternative<Signaled>(exit) ? Lose(index) : Fail(index);
  }
  Apply(state_.On(GroupEvent::kWorkerSucceeded));
  ApplyIfAllGone();
}

void WorkerGroup::Lose(size_t index) {
  const bool running = state_.phase() == GroupPhase::kRunning && replacement_of_;
  // The template is forking the replacement of another worker.
  if (running && starter_->is_busy()) return lost_.push_back(index);
  auto replacement = running ? replacement_of_(workers_[index].record) : std::nullopt;
  if (!replacement) return Fail(index);
  if (state_.On(GroupEvent::kWorkerLost) != GroupAction::kReplace) return;
  Replace(index, *std::move(replacement));
}

void WorkerGroup::LoseNext() {
  const std::vector<size_t> lost = std::exchange(lost_, {});
  for (const size_t index : lost) Lose(index);
}

void WorkerGroup::Fail(size_t index) {
  const GroupPhase before = state_.phase();
  const GroupAction action = state_.On(WhenOneFails());
  const WorkerRecord& record = workers_[index].record;
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
  if (NumAlive() == 0 && !starter_->is_busy()) Apply(state_.On(GroupEvent::kAllGone));
}

bool WorkerGroup::ended_well() const {
  return !workers_.empty() && std::ranges::all_of(workers_, [this](const Worker& worker) {
    return worker.record.exit && EndsWell(*worker.record.exit, rules_.saves);
  });
}

GroupEvent WorkerGroup::WhenOneFails() const {
  const bool others_wait = rules_.saves && (saving_ || state_.phase() == GroupPhase::kRunning);
  return others_wait ? GroupEvent::kHurryAsked : GroupEvent::kWorkerFailed;
}

void WorkerGroup::NoteFailure(size_t index) {
  if (first_failure_) return;
  const Worker& worker = workers_[index];
  first_failure_ = index;
  failure_time_ = worker.record.ended_at;
  stop_time_ = surroundings_.clock.Now();
  output_->CatchUp(worker.record.local_rank);
  if (handlers_.on_first_failure) handlers_.on_first_failure(Complete(worker));
}

void WorkerGroup::FailEnded(int local_rank, std::string left) {
  if (state_.phase() != GroupPhase::kRunning) return;
  for (size_t i = 0; i < workers_.size(); ++i) {
    WorkerRecord& record = workers_[i].record;
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
    case GroupAction::kReplace:  // Lose() calls Replace()
      return;
    case GroupAction::kStop:
      SignalAll(stop_signal_);
      return ArmTimer(rules_.grace);
    case GroupAction::kKill:
      SignalAll(SIGKILL);
      if (starter_ != nullptr) starter_->Kill();
      return ArmTimer(kKillTimeout);
    case GroupAction::kFinish:
    case GroupAction::kGiveUp:
      alarm_ = surroundings_.clock.Set({}, handlers_.on_done);
      return;
  }
}

void WorkerGroup::SignalAll(int signal) {
  surroundings_.log.Debug("signalling the workers",
                          {{"signal", SignalName(signal)}, {"living", std::to_string(NumAlive())}});
  for (Worker& worker : workers_) {
    if (worker.record.pid == 0 || worker.record.exit) continue;
    worker.record.told_to_stop = true;
    // SIGABRT goes to the worker only, and asks for its stacks. It would also end Python's resource
    // tracker, which ignores SIGTERM and removes the named shared memory of a worker that is gone.
    if (signal == SIGABRT) {
      surroundings_.processes.Signal(worker.record.pid, signal);
    } else {
      surroundings_.processes.SignalGroup(worker.record.pid, signal);
    }
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

size_t WorkerGroup::NumAlive() const {
  return static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) {
    return w.record.pid != 0 && !w.record.exit;
  }));
}

std::vector<LiveWorker> WorkerGroup::Living() const {
  std::vector<LiveWorker> living;
  for (const Worker& worker : workers_) {
    const WorkerRecord& record = worker.record;
    if (record.pid == 0 || record.exit) continue;
    living.push_back({record.rank, record.local_rank, record.pid, bytes_seen(record.local_rank)});
  }
  return living;
}

std::vector<LiveWorker> WorkerGroup::EndedWell() const {
  std::vector<LiveWorker> ended;
  for (const Worker& worker : workers_) {
    const WorkerRecord& record = worker.record;
    if (!record.exit || !EndsWell(*record.exit, rules_.saves)) continue;
    ended.push_back({record.rank, record.local_rank, record.pid, bytes_seen(record.local_rank)});
  }
  return ended;
}

uint64_t WorkerGroup::bytes_seen() const {
  uint64_t sum = 0;
  for (const Worker& worker : workers_) {
    if (worker.record.pid != 0) sum += bytes_seen(worker.record.local_rank);
  }
  return sum;
}

void WorkerGroup::NoteStanding(int local_rank, const std::string& standing) {
  for (Worker& worker : workers_) {
    if (worker.record.local_rank == local_rank) worker.record.standing = standing;
  }
}

void WorkerGroup::FinishOutput() {
  if (output_) output_->Finish();
}

WorkerRecord WorkerGroup::Complete(const Worker& worker) const {
  WorkerRecord record = worker.record;
  record.last_lines = output_->LastErrorLines(record.local_rank);
  record.lines_shown = output_->shows_errors(record.local_rank);
  record.stderr_file = output_->error_log(record.local_rank);
  if (!record.error_file.empty()) record.error = ReadErrorFile(record.error_file);
  if (const auto left = flight_ ? flight_->Read(record.local_rank) : std::nullopt) {
    record.last_log = left->log;
    record.gpu_bus_id = flight_->ReadGpu(record.local_rank);
    record.to_go_on = flight_->ReadToGoOn(record.local_rank);
  }
  if (record.exit) {
    record.ended_after =
        std::chrono::duration_cast<std::chrono::milliseconds>(worker.ended_at - stop_time_);
  }
  return record;
}

std::vector<WorkerRecord> WorkerGroup::Records() const {
  std::vector<WorkerRecord> records;
  for (const Worker& worker : workers_) records.push_back(Complete(worker));
  return records;
}

}  // namespace ddprun::launcher
