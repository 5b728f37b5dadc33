#include "launcher/agent/group_workers.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "launcher/hang/worker_activity.h"
#include "launcher/process/signals.h"
#include "launcher/report/exit_text.h"
#include "launcher/report/failure_report.h"

namespace ddprun::launcher {

namespace {

bool IsPipe(int fd) {
  struct stat info {};
  return fd >= 0 && ::fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode);
}

}  // namespace

GroupWorkers::GroupWorkers(const GroupSurroundings& surroundings,
                           bool saves,
                           GroupOutputPlan output,
                           const FlightReader& flight)
    : surroundings_(surroundings),
      saves_(saves),
      output_(surroundings.io,
              surroundings.console,
              std::move(output),
              [&log = surroundings.log](const std::string& text) { log.Warning(text); }),
      flight_(flight) {}

Result<const WorkerFds*> GroupWorkers::Add(const WorkerSpec& spec) {
  DDPRUN_ASSIGN(WorkerFds fds, output_.Open(spec.local_rank));
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

void GroupWorkers::NoteStart(size_t index, pid_t pid) {
  WorkerRecord& record = workers_[index].record;
  record.exit.reset();
  record.pid = pid;
  record.started_at = std::chrono::system_clock::now();
  surroundings_.log.Debug("worker started", {{"rank", std::to_string(record.rank)},
                                             {"local_rank", std::to_string(record.local_rank)},
                                             {"pid", std::to_string(pid)}});
}

void GroupWorkers::DropUnstarted() {
  std::erase_if(workers_, [](const Worker& worker) { return worker.record.pid == 0; });
}

std::optional<size_t> GroupWorkers::NoteExit(pid_t pid, const ProcessExit& exit) {
  const auto worker = std::ranges::find_if(
      workers_, [pid](const Worker& w) { return w.record.pid == pid && !w.record.exit; });
  if (worker == workers_.end()) return std::nullopt;
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
  return static_cast<size_t>(worker - workers_.begin());
}

void GroupWorkers::NoteActivities() {
  for (Worker& worker : workers_) {
    if (worker.record.pid == 0 || worker.record.exit) continue;
    const auto flight = flight_.Read(worker.record.local_rank);
    if (!flight) continue;
    worker.record.last_activity = DescribePastFlight(*flight, surroundings_.clock.Now());
  }
}

void GroupWorkers::Signal(int signal) const {
  for (const LiveWorker& worker : Living()) surroundings_.processes.Signal(worker.pid, signal);
}

void GroupWorkers::SignalWithChildren(int signal) const {
  for (const LiveWorker& worker : Living()) surroundings_.processes.SignalGroup(worker.pid, signal);
}

void GroupWorkers::TellToStop(int signal) {
  surroundings_.log.Debug("signalling the workers", {{"signal", SignalName(signal)},
                                                     {"living", std::to_string(Living().size())}});
  for (Worker& worker : workers_) {
    WorkerRecord& record = worker.record;
    if (record.pid != 0 && !record.exit) record.told_to_stop = true;
  }
  // SIGABRT goes to the workers only, and asks for their stacks. It would also end Python's
  // resource tracker, which ignores SIGTERM and removes the named shared memory of a worker that is
  // gone.
  signal == SIGABRT ? Signal(signal) : SignalWithChildren(signal);
}

bool GroupWorkers::ended_well() const {
  return !workers_.empty() && EndedWell().size() == workers_.size();
}

template <typename Filter>
std::vector<LiveWorker> GroupWorkers::Where(Filter filter) const {
  std::vector<LiveWorker> found;
  for (const Worker& worker : workers_) {
    const WorkerRecord& record = worker.record;
    if (record.pid == 0 || !filter(record)) continue;
    found.push_back(
        {record.rank, record.local_rank, record.pid, output_.bytes_seen(record.local_rank)});
  }
  return found;
}

std::vector<LiveWorker> GroupWorkers::Living() const {
  return Where([](const WorkerRecord& record) { return !record.exit; });
}

std::vector<LiveWorker> GroupWorkers::EndedWell() const {
  return Where([this](const WorkerRecord& record) {
    return record.exit && IsSuccess(*record.exit, saves_);
  });
}

uint64_t GroupWorkers::bytes_seen() const {
  uint64_t sum = 0;
  for (const LiveWorker& worker : Where([](const WorkerRecord&) { return true; })) {
    sum += worker.output_bytes;
  }
  return sum;
}

WorkerRecord GroupWorkers::CatchUp(size_t index) {
  output_.CatchUp(workers_[index].record.local_rank);
  return Complete(workers_[index]);
}

std::vector<WorkerRecord> GroupWorkers::Records() const {
  std::vector<WorkerRecord> records;
  for (const Worker& worker : workers_) records.push_back(Complete(worker));
  return records;
}

WorkerRecord GroupWorkers::Complete(const Worker& worker) const {
  WorkerRecord record = worker.record;
  record.last_lines = output_.LastErrorLines(record.local_rank);
  record.lines_shown = output_.shows_errors(record.local_rank);
  record.stderr_file = output_.error_log(record.local_rank);
  if (!record.error_file.empty()) record.error = ReadErrorFile(record.error_file);
  if (const auto left = flight_.Read(record.local_rank)) {
    record.last_log = left->log;
    record.gpu_bus_id = flight_.ReadGpu(record.local_rank);
    record.resume_command = flight_.ReadResumeCommand(record.local_rank);
  }
  if (record.exit) {
    record.ended_after =
        std::chrono::duration_cast<std::chrono::milliseconds>(worker.ended_at - stop_time_);
  }
  return record;
}

}  // namespace ddprun::launcher
