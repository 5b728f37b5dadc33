#include "launcher/output/group_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "launcher/output/last_lines.h"
#include "launcher/output/pty.h"

namespace ddprun::launcher {

namespace {

uint64_t FileSize(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

std::vector<std::string> LastLinesOfFile(const std::string& path, size_t max_lines) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return {};
  const uint64_t size = FileSize(path);
  const uint64_t begin = size > Tail::kBytes ? size - Tail::kBytes : 0;
  std::string bytes(size - begin, '\0');
  const ssize_t got = ::pread(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(begin));
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return LastLines(bytes, /*cut=*/begin > 0, max_lines);
}

}  // namespace

GroupOutput::GroupOutput(asio::io_context& io,
                         Console& console,
                         GroupOutputPlan plan,
                         LogFile::Warn warn)
    : io_(io), console_(console), plan_(std::move(plan)), warn_(std::move(warn)) {}

Result<WorkerFds> GroupOutput::Open(int local_rank) {
  if (workers_.empty()) DDPRUN_TRY(OpenFilteredLogs());
  const WorkerOutputPlan& plan = plan_.workers[static_cast<size_t>(local_rank)];
  Worker& worker = workers_.emplace_back();
  WorkerFds fds;
  // Programs usually end if their standard output is closed, but not if standard error is.
  const Side out{console_.out(), plan_.filtered_out, filtered_out_, /*ends_with_console=*/true};
  const Side err{console_.err(), plan_.filtered_err, filtered_err_, /*ends_with_console=*/false};
  DDPRUN_ASSIGN(fds.out, OpenStream(plan.out, out, worker.out));
  DDPRUN_ASSIGN(fds.err, OpenStream(plan.err, err, worker.err));
  return fds;
}

Status GroupOutput::OpenFilteredLogs() {
  if (!plan_.filtered_out.file.empty()) {
    DDPRUN_ASSIGN(filtered_out_, LogFile::Open(plan_.filtered_out.file, console_.files(), warn_));
  }
  if (!plan_.filtered_err.file.empty()) {
    DDPRUN_ASSIGN(filtered_err_, LogFile::Open(plan_.filtered_err.file, console_.files(), warn_));
  }
  return {};
}

Result<UniqueFd> GroupOutput::OpenStream(const StreamPlan& plan, const Side& side, Stream& stream) {
  if (plan.route == Route::kInherit) return UniqueFd();
  if (plan.route == Route::kFile) {
    stream.file = plan.file;
    return OpenLogFile(plan.file);
  }
  DDPRUN_ASSIGN(StreamSinks sinks, MakeSinks(plan, side));
  if (plan.route == Route::kTerminal) {
    DDPRUN_ASSIGN(Pty pty, OpenPty(side.console.fd(), plan.label));
    stream.worker_stream = WorkerStream::Start(io_, std::move(pty.ours), std::move(sinks));
    return std::move(pty.workers);
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("opening a pipe", errno);
  stream.worker_stream = WorkerStream::Start(io_, UniqueFd(ends[0]), std::move(sinks));
  return UniqueFd(ends[1]);
}

Result<StreamSinks> GroupOutput::MakeSinks(const StreamPlan& plan, const Side& side) {
  StreamSinks sinks;
  if (plan.shown) {
    sinks.console = &side.console;
    sinks.label = plan.label;
    sinks.ends_with_console = side.ends_with_console && plan.file.empty();
  }
  if (!plan.file.empty()) {
    DDPRUN_ASSIGN(sinks.copy, LogFile::Open(plan.file, console_.files(), warn_));
  }
  if (plan.filtered && side.filtered_log) {
    sinks.filtered_log = &*side.filtered_log;
    sinks.filter.emplace(side.filtered.needles, plan.label);
  }
  return sinks;
}

void GroupOutput::FollowTerminal() {
  for (const Worker& worker : workers_) {
    if (worker.out.worker_stream != nullptr) worker.out.worker_stream->FollowTerminal();
    if (worker.err.worker_stream != nullptr) worker.err.worker_stream->FollowTerminal();
  }
}

void GroupOutput::Finish() {
  for (const Worker& worker : workers_) {
    if (worker.out.worker_stream != nullptr) worker.out.worker_stream->Finish();
    if (worker.err.worker_stream != nullptr) worker.err.worker_stream->Finish();
  }
}

void GroupOutput::CatchUp(int local_rank) {
  const Stream& err = workers_[static_cast<size_t>(local_rank)].err;
  if (err.worker_stream != nullptr) err.worker_stream->CatchUp();
}

const std::string& GroupOutput::error_log(int local_rank) const {
  return plan_.workers[static_cast<size_t>(local_rank)].err.file;
}

bool GroupOutput::shows_errors(int local_rank) const {
  const StreamPlan& err = plan_.workers[static_cast<size_t>(local_rank)].err;
  return err.route != Route::kFile && err.shown;
}

std::vector<std::string> GroupOutput::LastErrorLines(int local_rank) const {
  const Stream& err = workers_[static_cast<size_t>(local_rank)].err;
  if (err.worker_stream != nullptr) return err.worker_stream->LastLines();
  return LastLinesOfFile(err.file, WorkerStream::kKeptLines);
}

uint64_t GroupOutput::bytes_seen(int local_rank) const {
  const Worker& worker = workers_[static_cast<size_t>(local_rank)];
  uint64_t bytes = 0;
  for (const Stream* stream : {&worker.out, &worker.err}) {
    bytes += stream->worker_stream != nullptr ? stream->worker_stream->bytes_seen()
                                              : FileSize(stream->file);
  }
  return bytes;
}

}  // namespace ddprun::launcher
