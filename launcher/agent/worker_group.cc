#include "launcher/agent/worker_group.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include <asio/post.hpp>

namespace ddprun::launcher {

namespace {

// What SIGKILL has not ended by then is stuck in the kernel.
constexpr std::chrono::seconds kKillTimeout{10};

}  // namespace

WorkerGroup::WorkerGroup(GroupSurroundings surroundings,
                         std::chrono::milliseconds shutdown_timeout,
                         GroupHandlers handlers)
    : surroundings_(surroundings),
      shutdown_timeout_(shutdown_timeout),
      handlers_(std::move(handlers)),
      timer_(surroundings.io),
      stop_signal_(SIGTERM) {}

void WorkerGroup::Start(const Target& target,
                        const std::vector<WorkerSpec>& specs,
                        int node_memory_fd) {
  for (size_t i = 0; i < specs.size(); ++i) {
    Result<UniqueFd> stderr_fd = Add(specs[i]);
    if (!stderr_fd) return FailStart(std::move(stderr_fd).error());
    SpawnRequest request{.name = target.name,
                         .program = target.program,
                         .argv = specs[i].argv,
                         .env = specs[i].env.Entries(),
                         .stderr_fd = stderr_fd->get()};
    if (node_memory_fd >= 0) request.inherited_fds.push_back(node_memory_fd);
    const Result<pid_t> pid = surroundings_.processes.Spawn(request);
    if (!pid) return FailStart(pid.error());
    Started(i, *pid);
  }
  Apply(state_.On(GroupEvent::kStarted));
}

void WorkerGroup::StartFromTemplate(TemplateClient& worker_template,
                                    const Environment& template_env,
                                    const std::vector<WorkerSpec>& specs,
                                    int node_memory_fd) {
  std::vector<ForkOrder> orders;
  std::vector<UniqueFd> stderr_fds;
  for (const WorkerSpec& spec : specs) {
    Result<UniqueFd> stderr_fd = Add(spec);
    if (!stderr_fd) return FailStart(std::move(stderr_fd).error());
    ForkOrder order{.local_rank = spec.local_rank, .env = ChangeOf(template_env, spec.env)};
    order.fds = {STDIN_FILENO, STDOUT_FILENO, stderr_fd->get(), node_memory_fd};
    stderr_fds.push_back(*std::move(stderr_fd));
    orders.push_back(std::move(order));
  }
  forking_ = &worker_template;
  worker_template.ForkWorkers(orders, [this](Result<std::vector<pid_t>> pids) {
    forking_ = nullptr;
    if (!pids) return FailStart(std::move(pids).error());
    for (size_t i = 0; i < pids->size(); ++i) {
      const Status adopted = surroundings_.processes.Adopt((*pids)[i]);
      if (!adopted.ok()) return FailStart(adopted.error());
      Started(i, (*pids)[i]);
    }
    Apply(state_.On(GroupEvent::kStarted));
  });
}

Result<UniqueFd> WorkerGroup::Add(const WorkerSpec& spec) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(spec.error_file).parent_path(), error);
  if (error) return SystemError("creating a folder for " + spec.error_file, error.value());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("opening a pipe", errno);
  surroundings_.guard.WatchPipe(ends[1]);
  Worker worker;
  worker.record.rank = spec.rank;
  worker.record.local_rank = spec.local_rank;
  worker.record.error_file = spec.error_file;
  worker.output = std::make_unique<WorkerStderr>(surroundings_.io, UniqueFd(ends[0]),
                                                 surroundings_.stderr_writer);
  workers_.push_back(std::move(worker));
  return UniqueFd(ends[1]);
}

void WorkerGroup::Started(size_t index, pid_t pid) {
  workers_[index].record.pid = pid;
  surroundings_.guard.Watch(pid);
}

void WorkerGroup::FailStart(Error error) {
  start_error_ = std::move(error);
  // Those that were never started are no workers.
  std::erase_if(workers_, [](const Worker& worker) { return worker.record.pid == 0; });
  const bool none = NumAlive() == 0;
  Apply(state_.On(none ? GroupEvent::kAllGone : GroupEvent::kHurryAsked));
}

void WorkerGroup::Stop(int signal) {
  if (state_.phase() == GroupPhase::kStarting || state_.phase() == GroupPhase::kRunning) {
    stop_signal_ = signal;
    stop_time_ = std::chrono::steady_clock::now();
  }
  Apply(state_.On(GroupEvent::kStopAsked));
}

void WorkerGroup::Pass(int signal) {
  for (const Worker& worker : workers_) {
    if (worker.record.pid != 0) surroundings_.processes.Signal(worker.record.pid, signal);
  }
}

void WorkerGroup::OnExit(pid_t pid, const ProcessExit& exit) {
  const auto worker = std::find_if(workers_.begin(), workers_.end(), [pid](const Worker& w) {
    return w.record.pid == pid && !w.record.exit;
  });
  if (worker == workers_.end()) return;
  surroundings_.guard.Forget(pid);
  worker->record.exit = exit;
  worker->ended_at = std::chrono::steady_clock::now();
  const int code = ExitCode(exit);
  if (code != 0 && !first_nonzero_code_ && std::holds_alternative<Exited>(exit)) {
    first_nonzero_code_ = code;
  }
  const GroupPhase before = state_.phase();
  const GroupAction action =
      state_.On(code == 0 ? GroupEvent::kWorkerSucceeded : GroupEvent::kWorkerFailed);
  if (before != state_.phase() && !first_failure_) {
    first_failure_ = static_cast<size_t>(worker - workers_.begin());
    failure_time_ = std::chrono::system_clock::now();
    stop_time_ = worker->ended_at;
    if (handlers_.on_first_failure) handlers_.on_first_failure(worker->record);
  }
  Apply(action);
  if (NumAlive() == 0 && forking_ == nullptr) Apply(state_.On(GroupEvent::kAllGone));
}

void WorkerGroup::Apply(GroupAction action) {
  switch (action) {
    case GroupAction::kNone:
      return;
    case GroupAction::kStop:
      SignalAll(stop_signal_);
      return ArmTimer(shutdown_timeout_);
    case GroupAction::kKill:
      SignalAll(SIGKILL);
      if (forking_ != nullptr) surroundings_.processes.Signal(forking_->pid(), SIGKILL);
      return ArmTimer(kKillTimeout);
    case GroupAction::kFinish:
    case GroupAction::kGiveUp:
      timer_.cancel();
      asio::post(surroundings_.io, [this] { handlers_.on_done(); });
      return;
  }
}

void WorkerGroup::SignalAll(int signal) {
  for (Worker& worker : workers_) {
    if (worker.record.pid == 0 || worker.record.exit) continue;
    worker.record.told_to_stop = true;
    surroundings_.processes.SignalGroup(worker.record.pid, signal);
  }
}

void WorkerGroup::ArmTimer(std::chrono::milliseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) Apply(state_.On(GroupEvent::kGraceOver));
  });
}

size_t WorkerGroup::NumAlive() const {
  return static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) {
    return w.record.pid != 0 && !w.record.exit;
  }));
}

void WorkerGroup::FinishOutput() {
  for (Worker& worker : workers_) worker.output->Finish();
}

std::vector<WorkerRecord> WorkerGroup::Records() const {
  using std::chrono::milliseconds;
  std::vector<WorkerRecord> records;
  for (const Worker& worker : workers_) {
    WorkerRecord record = worker.record;
    record.last_lines = worker.output->LastLines();
    record.error = ReadErrorFile(record.error_file);
    if (record.exit) {
      record.ended_after = std::chrono::duration_cast<milliseconds>(worker.ended_at - stop_time_);
    }
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace ddprun::launcher
