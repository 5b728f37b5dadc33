#include "trainer/report/metrics_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/whole_file.h"

namespace ddprun::trainer {

namespace {

using Json = nlohmann::ordered_json;

Json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::string Line(const Json& object) {
  // Messages of errors may hold any bytes.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string HeaderJson(const RunHeader& header, double unix_seconds) {
  Json object = {{"ts", unix_seconds},
                 {"event", "start"},
                 {"run", header.run_name},
                 {"config_hash", header.config_hash},
                 {"world",
                  {{"size", header.world_size},
                   {"nodes", header.nodes},
                   {"local_size", header.local_world_size}}},
                 {"strategy", header.strategy},
                 {"parameters", header.parameters}};
  for (const auto& [name, value] : header.facts) object[name] = value;
  return Line(object);
}

std::string StepJson(const StepReport& report, double mean_loss, double unix_seconds) {
  Json object = {{"ts", unix_seconds},
                 {"step", report.step},
                 {"epoch", Number(report.epoch)},
                 {"split", "train"},
                 {"loss", Number(report.loss)},
                 {"mean_loss", Number(mean_loss)},
                 {"learning_rate", Number(report.learning_rate)},
                 {"grad_norm", Number(report.grad_norm)},
                 {"samples", report.samples}};
  if (report.tokens > 0) object["tokens"] = report.tokens;
  object["step_seconds"] = Number(report.step_seconds);
  object["exposed_comm_seconds"] = Number(report.exposed_comm_seconds);
  return Line(object);
}

std::string EvalJson(const EvalReport& report, double unix_seconds) {
  Json object = {{"ts", unix_seconds},
                 {"step", report.step},
                 {"epoch", Number(report.epoch)},
                 {"split", "validation"},
                 {"loss", Number(report.loss)},
                 {"samples", report.samples},
                 {"seconds", Number(report.seconds)}};
  for (const auto& [name, value] : report.metrics) object[name] = Number(value);
  return Line(object);
}

std::string BucketSizesJson(const BucketSizesReport& report, double unix_seconds) {
  const auto sizes = [](const BucketSizesReport::Trial& trial) {
    return Json{{"bucket_cap_mb", trial.bucket_cap_mb}, {"first_bucket_mb", trial.first_bucket_mb}};
  };
  Json object = {{"ts", unix_seconds}, {"event", "bucket_sizes"}, {"step", report.step}};
  object["strategy"] = sizes(report.trials.at(report.chosen));
  object["trials"] = Json::array();
  for (const BucketSizesReport::Trial& trial : report.trials) {
    Json tried = sizes(trial);
    tried["buckets"] = trial.buckets;
    tried["seconds"] = Number(trial.seconds);
    object["trials"].push_back(std::move(tried));
  }
  return Line(object);
}

std::string EndJson(const RunEnd& end, double unix_seconds) {
  Json object = {
      {"ts", unix_seconds}, {"event", "end"}, {"step", end.step}, {"reason", end.reason}};
  if (!end.message.empty()) object["message"] = end.message;
  return Line(object);
}

Result<MetricsFile> MetricsFile::Open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.valid()) return CannotWrite(path, errno);
  return MetricsFile(path, std::move(fd));
}

Status MetricsFile::Append(const std::string& line) {
  return WriteAll(fd_.get(), line + "\n", path_);
}

}  // namespace ddprun::trainer
