#include "trainer/report/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "trainer/report/append_line.h"
#include "trainer/report/eval_json.h"
#include "trainer/report/json_number.h"

namespace ddprun::trainer {

namespace {

using Json = nlohmann::ordered_json;

std::string Line(const Json& object) {
  // Replaces invalid UTF-8, because error messages may contain any bytes.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Returns the number after "step": in a line; 0 if it has none.
int64_t StepOf(std::string_view line) {
  constexpr std::string_view kStep = "\"step\":";
  const size_t at = line.find(kStep);
  int64_t step = 0;
  if (at == line.npos) return step;
  std::from_chars(line.data() + at + kStep.size(), line.data() + line.size(), step);
  return step;
}

Json OwnSeconds(const RankTimesReport& report) {
  Json object = {{"steps", report.steps}};
  for (const RankTimesReport::Phase& phase : report.phases) {
    object[std::string(phase.name)] = {{"min", phase.least},
                                       {"median", phase.median},
                                       {"max", phase.most},
                                       {"slowest", phase.slowest}};
  }
  return object;
}

Error MetricsUnreadable(const std::string& path, int error_number) {
  return Error{.title = "RUN FOLDER",
               .where = path,
               .what = "The metrics so far cannot be read: " + ErrnoText(error_number) + ".",
               .hint = "Make the file readable, or move it away: a run goes on without it.",
               .page = "run-folder"};
}

}  // namespace

// Assumes that Line() made every line.
Status CutMetrics(const std::string& path, int64_t step, bool evaluation_due) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno == ENOENT ? Status() : MetricsUnreadable(path, errno);
  std::string kept;
  size_t read = 0;
  for (std::string line; std::getline(file, line); read += line.size() + 1) {
    const bool whole = !file.eof() && line.ends_with('}');
    const bool end = line.find(R"("event":"end")") != line.npos;
    const bool evaluation = line.find(R"("split":"validation")") != line.npos;
    const int64_t last = evaluation && evaluation_due ? step - 1 : step;
    if (whole && !end && StepOf(line) <= last) kept += line + "\n";
  }
  if (file.bad()) return MetricsUnreadable(path, errno);  // what was not read would be lost
  if (kept.size() == read) return {};
  return WriteFileAtomically(path, kept);
}

Result<WrittenSteps> CutLastLine(const std::string& path) {
  constexpr off_t kTailBytes = off_t{1} << 20;
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const off_t size = fd.valid() ? ::lseek(fd.get(), 0, SEEK_END) : -1;
  if (size < 0) return CannotWrite(path, errno);
  const off_t begin = std::max<off_t>(size - kTailBytes, 0);
  std::string end(static_cast<size_t>(size - begin), '\0');
  // Bytes that were not read would be lost.
  const ssize_t found = ::pread(fd.get(), end.data(), end.size(), begin);
  if (std::cmp_not_equal(found, end.size())) {
    return MetricsUnreadable(path, found < 0 ? errno : EIO);
  }
  end.resize(end.rfind('\n') + 1);  // 0 if there is none
  if (::ftruncate(fd.get(), begin + static_cast<off_t>(end.size())) != 0) {
    return CannotWrite(path, errno);
  }
  WrittenSteps written;
  std::istringstream lines(end);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(R"("split":"train")") != line.npos) written = {StepOf(line), written.validation};
    if (line.find(R"("split":"test")") != line.npos) written.test = StepOf(line);
    if (line.find(R"("split":"validation")") != line.npos) written.validation = StepOf(line);
  }
  return written;
}

double LastWriteTime(const std::string& path) {
  constexpr std::string_view kTime = "{\"ts\":";
  constexpr std::streamoff kTailBytes = 1 << 16;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return 0;
  file.seekg(std::max<std::streamoff>(file.tellg() - kTailBytes, 0));
  double last = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kTime)) continue;
    std::from_chars(line.data() + kTime.size(), line.data() + line.size(), last);
  }
  return last;
}

void MetricsFile::OnBegin(const RunHeader& header, ReportTime now) {
  fd_ = ValueOrThrow(OpenToAppend(path_));
  if (continues_file_) return;
  Json object = {{"ts", now.unix_seconds},
                 {"event", "start"},
                 {"run", header.run_name},
                 {"config_hash", header.config_hash},
                 {"world",
                  {{"size", header.world_size},
                   {"nodes", header.nodes},
                   {"local_size", header.local_world_size}}},
                 {"strategy", header.strategy},
                 {"parameters", header.parameters}};
  if (header.resumed_step > 0) object["resumed_step"] = header.resumed_step;
  if (!header.parent.empty()) object["parent"] = header.parent;
  if (!header.changes.empty()) object["changes"] = header.changes;
  for (const auto& [name, value] : header.facts) object[name] = value;
  ThrowIfError(WriteAll(fd_.get(), Line(object), path_));
}

void MetricsFile::OnStep(const StepReport& report, ReportTime now) {
  step_ = report.step;
  if (!report.reported) return;
  Json object = {{"ts", now.unix_seconds},
                 {"step", report.step},
                 {"epoch", JsonNumber(report.epoch)},
                 {"split", "train"},
                 {"loss", JsonNumber(report.loss)},
                 {"mean_loss", JsonNumber(report.mean_loss)},
                 {"learning_rate", JsonNumber(report.learning_rate)},
                 {"grad_norm", JsonNumber(report.grad_norm)},
                 {"samples", report.samples}};
  if (report.tokens > 0) object["tokens"] = report.tokens;
  if (report.loss_scale > 0) {
    object["loss_scale"] = JsonNumber(report.loss_scale);
    object["skipped_steps"] = report.skipped_steps;
  }
  object["run_seconds"] = JsonNumber(report.run_seconds);
  object["step_seconds"] = JsonNumber(report.step_seconds);
  if (report.exposed_comm_seconds >= 0) {
    object["exposed_comm_seconds"] = JsonNumber(report.exposed_comm_seconds);
  }
  if (report.pipeline_bubble >= 0) object["pipeline_bubble"] = JsonNumber(report.pipeline_bubble);
  if (report.max_memory_allocated >= 0) {
    object["max_memory_allocated"] = report.max_memory_allocated;
    object["max_memory_reserved"] = report.max_memory_reserved;
  }
  const RankTimesReport times = std::exchange(rank_times_, {});
  if (!times.phases.empty()) object["own_seconds"] = OwnSeconds(times);
  Append(Line(object));
}

void MetricsFile::OnRankTimes(const RankTimesReport& report, ReportTime /*now*/) {
  rank_times_ = report;
}

void MetricsFile::OnEval(const EvalReport& report, ReportTime now) {
  AppendEvaluation("validation", report, now);
}

void MetricsFile::OnTest(const EvalReport& report, ReportTime now) {
  AppendEvaluation("test", report, now);
}

void MetricsFile::AppendEvaluation(const char* split, const EvalReport& report, ReportTime now) {
  Json object = {{"ts", now.unix_seconds},
                 {"step", report.step},
                 {"epoch", JsonNumber(report.epoch)},
                 {"split", split},
                 {"loss", JsonNumber(report.loss)},
                 {"samples", report.samples},
                 {"seconds", JsonNumber(report.seconds)}};
  object.update(MetricsJson(report));
  Append(Line(object));
}

void MetricsFile::OnBucketSizes(const BucketSizesReport& report, ReportTime now) {
  const auto sizes = [](const BucketSizesReport::Trial& trial) {
    return Json{{"bucket_cap_mb", trial.bucket_cap_mb}, {"first_bucket_mb", trial.first_bucket_mb}};
  };
  Json object = {{"ts", now.unix_seconds}, {"event", "bucket_sizes"}, {"step", report.step}};
  object["strategy"] = sizes(report.trials.at(report.chosen));
  object["trials"] = Json::array();
  for (const BucketSizesReport::Trial& trial : report.trials) {
    Json tried = sizes(trial);
    tried["buckets"] = trial.buckets;
    tried["seconds"] = JsonNumber(trial.seconds);
    object["trials"].push_back(std::move(tried));
  }
  Append(Line(object));
}

void MetricsFile::OnDeviceMemory(const DeviceMemoryReport& report, ReportTime now) {
  Json object = {{"ts", now.unix_seconds}, {"event", "device_memory"}, {"step", report.step}};
  object["devices"] = Json::array();
  for (const DeviceMemoryReport::Device& device : report.devices) {
    object["devices"].push_back({{"device", device.name},
                                 {"samples", device.samples},
                                 {"gathered", device.gathered},
                                 {"bytes", device.total()},
                                 {"model", device.model},
                                 {"gradients", device.gradients},
                                 {"optimizer", device.optimizer},
                                 {"batch", device.batch},
                                 {"outputs", device.outputs}});
  }
  Append(Line(object));
}

void MetricsFile::OnCheckpoint(const CheckpointReport& report, ReportTime now) {
  Json object = {{"ts", now.unix_seconds}, {"event", "checkpoint"}, {"step", report.step}};
  if (report.error.empty()) {
    object["path"] = report.path;
    object["bytes"] = report.bytes;
  } else {
    object["error"] = report.error;
  }
  object["seconds"] = JsonNumber(report.seconds);
  object["stall_seconds"] = JsonNumber(report.stall_seconds);
  Append(Line(object));
}

void MetricsFile::OnEnd(const RunEnd& end, ReportTime now) {
  Json object = {
      {"ts", now.unix_seconds}, {"event", "end"}, {"step", end.step}, {"reason", end.reason}};
  if (!end.message.empty()) object["message"] = end.message;
  Append(Line(object));
}

Status MetricsFile::OpenIfRemoved() {
  struct stat opened = {};
  if (::fstat(fd_.get(), &opened) != 0 || opened.st_nlink > 0) return {};
  DDPRUN_ASSIGN(fd_, OpenToAppend(path_));
  warned_.OnNote("warning: " + path_ + " was removed; it goes on with step " +
                 std::to_string(step_));
  return {};
}

void MetricsFile::Append(const std::string& line) {
  Status status = OpenIfRemoved();
  if (status.ok()) status = AppendLine(fd_.get(), line, path_);
  if (status.ok() || std::exchange(has_warned_, true)) return;
  warned_.OnNote("warning: metrics are being lost from step " + std::to_string(step_) +
                 " on: " + status.error().what);
}

}  // namespace ddprun::trainer
