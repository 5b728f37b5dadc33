#include <ctime>

#include <nlohmann/json.hpp>

#include "launcher/report/job_end.h"
#include "launcher/report/peer_worker.h"

namespace ddprun::launcher {

namespace {

// Keeps the order of the fields, for readers.
using Json = nlohmann::ordered_json;
using Time = std::chrono::system_clock::time_point;

// Returns "2026-11-21T00:24:56.123Z"; null for the default value.
Json TimeJson(Time time) {
  if (time == Time{}) return nullptr;
  const auto since = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch());
  const std::time_t seconds = since.count() / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>(since.count() % 1000));
  return text;
}

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json ExitJson(const std::optional<ProcessExit>& exit) {
  if (!exit) return nullptr;
  Json json = {{"code", nullptr}, {"signal", nullptr}, {"signal_name", nullptr}};
  json["core_dumped"] = false;
  if (const auto* exited = std::get_if<Exited>(&*exit)) {
    json["code"] = exited->code;
  } else {
    const Signaled& signaled = std::get<Signaled>(*exit);
    json["signal"] = signaled.signal;
    json["signal_name"] = SignalName(signaled.signal);
    json["core_dumped"] = signaled.dumped_core;
  }
  return json;
}

Json ErrorJson(const std::optional<WorkerError>& error) {
  if (!error) return nullptr;
  return {{"message", error->message},
          {"callstack", TextOrNull(error->callstack)},
          {"timestamp_s", error->timestamp_s}};
}

// Returns the fields that workers of this node and of other nodes have.
Json WorkerJson(const WorkerRecord& worker, const std::string& host) {
  Json json = {{"rank", worker.rank},
               {"local_rank", worker.local_rank},
               {"host", host},
               {"pid", worker.pid},
               {"exit", ExitJson(worker.exit)}};
  json["error_file"] =
      worker.error && !worker.error_file_removed ? Json(worker.error_file) : Json(nullptr);
  json["error"] = ErrorJson(worker.error);
  json["last_lines"] = worker.last_lines;
  json["last_log"] = worker.last_log;
  json["stderr_file"] = TextOrNull(worker.stderr_file);
  json["out_of_memory"] = nullptr;
  if (worker.out_of_memory) {
    json["out_of_memory"] = {{"certain", worker.out_of_memory->certain},
                             {"what", worker.out_of_memory->what}};
  }
  json["core_dump"] = TextOrNull(worker.core_dump);
  return json;
}

Json OwnWorkerJson(const WorkerRecord& worker, const std::string& host, bool first_failure) {
  Json json = WorkerJson(worker, host);
  json["first_failure"] = first_failure;
  json["told_to_stop"] = worker.told_to_stop;
  json["started_at"] = TimeJson(worker.started_at);
  json["ended_at"] = TimeJson(worker.ended_at);
  json["standing"] = TextOrNull(worker.last_activity);
  json["gpu"] = TextOrNull(worker.gpu);
  return json;
}

Json RoundEndJson(const std::optional<rendezvous::RoundEnd>& end) {
  if (!end) return nullptr;
  Json json = {{"kind", NameOf(end->kind)},
               {"node_rank", end->node_rank < 0 ? Json(nullptr) : Json(end->node_rank)},
               {"message", end->message},
               {"worker", nullptr}};
  if (const auto worker = WorkerOf(*end)) json["worker"] = WorkerJson(worker->record, worker->host);
  return json;
}

Json AttemptJson(const AttemptEnd& attempt, const std::string& host) {
  const rendezvous::Membership& place = attempt.membership;
  Json json = {{"round", place.round},
               {"restart_count", place.restart_count},
               {"node_rank", place.node_rank},
               {"nnodes", place.nnodes},
               {"world_size", place.world_size},
               {"started_at", TimeJson(attempt.started_at)},
               {"ended_at", TimeJson(attempt.ended_at)},
               {"first_failure_at", TimeJson(attempt.failure_time)},
               {"ended_elsewhere", RoundEndJson(attempt.ended_elsewhere)},
               {"hang", TextOrNull(attempt.hang)},
               {"nccl", attempt.nccl}};
  json["workers"] = Json::array();
  for (size_t i = 0; i < attempt.workers.size(); ++i) {
    json["workers"].push_back(OwnWorkerJson(attempt.workers[i], host, attempt.first_failure == i));
  }
  return json;
}

// Returns the failure with which the text report begins; null if there was none.
Json FirstCause(const JobEnd& end) {
  Json json = {{"text", nullptr}, {"node_rank", nullptr}, {"worker", nullptr}};
  if (const auto& elsewhere = end.peer_failure) {
    const Json round_end = RoundEndJson(elsewhere);
    json = {{"text", round_end["message"]},
            {"node_rank", round_end["node_rank"]},
            {"worker", round_end["worker"]}};
  } else if (!end.attempts.empty() && !end.attempts.back().hang.empty()) {
    json["text"] = end.attempts.back().hang;
    json["node_rank"] = end.attempts.back().membership.node_rank;
  } else if (end.worker_failed) {
    const AttemptEnd& last = end.attempts.back();
    const WorkerRecord& worker = last.workers[*last.first_failure];
    json = {{"text", Summarize(worker, end.host)},
            {"node_rank", last.membership.node_rank},
            {"worker", WorkerJson(worker, end.host)}};
  } else if (end.error) {
    json["text"] = end.error->what;
    json["node_rank"] = end.node_rank;
  } else if (end.stop_signal) {
    json["text"] = "stopped by " + SignalName(*end.stop_signal);
    json["node_rank"] = end.node_rank;
  } else {
    return nullptr;
  }
  return json;
}

Json LauncherErrorJson(const std::optional<Error>& error) {
  if (!error) return nullptr;
  return {{"title", error->title},
          {"where", TextOrNull(error->where)},
          {"what", error->what},
          {"hint", TextOrNull(error->hint)}};
}

}  // namespace

std::string RenderReportJson(const JobEnd& end) {
  const char* result = end.exit_code == 0 ? "succeeded" : end.stop_signal ? "stopped" : "failed";
  Json report = {
      {"format", 1},
      {"ddprun_version", DDPRUN_VERSION},
      {"job_id", end.job_id},
      {"run_id", end.run_id},
      {"program", end.program},
      {"host", end.host},
      {"result", result},
      {"exit_code", end.exit_code},
      {"started_at", TimeJson(end.started_at)},
      {"ended_at", TimeJson(end.ended_at)},
      {"first_cause", end.exit_code == 0 ? Json(nullptr) : FirstCause(end)},
      {"stop_signal", end.stop_signal ? Json(SignalName(*end.stop_signal)) : Json(nullptr)},
      {"launcher_error", LauncherErrorJson(end.error)},
      {"unkillable_pids", end.unkillable},
      {"to_go_on", end.exit_code == 0 ? Json(nullptr) : TextOrNull(end.resume_command)},
      {"launcher_log", end.log},
      {"attempts", Json::array()}};
  for (const AttemptEnd& attempt : end.attempts) {
    report["attempts"].push_back(AttemptJson(attempt, end.host));
  }
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
