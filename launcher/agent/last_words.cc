#include "launcher/agent/last_words.h"

#include <signal.h>
#include <unistd.h>

#include <optional>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/untrusted_json.h"
#include "launcher/report/job_end.h"
#include "launcher/report/peer_worker.h"
#include "launcher/report/report_file.h"

namespace ddprun::launcher {

std::string ErrorTextForParent(const std::string& error_file, const ProcessExit& exit) {
  using nlohmann::json;
  json document = ParseUntrustedJson(error_file);
  const bool has_message =
      document.is_object() && document.contains("message") && document["message"].is_object();
  if (!has_message) return error_file;
  const auto* signaled = std::get_if<Signaled>(&exit);
  document["message"]["errorCode"] = signaled != nullptr ? -signaled->signal : ExitCode(exit);
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status CopyErrorFile(const std::string& from, const ProcessExit& exit, const std::string& to) {
  const std::optional<std::string> text = ReadUntrustedFile(from);
  if (!text) return {};
  return WriteFileAtomically(to, ErrorTextForParent(*text, exit), Durability::kUnsynced);
}

JobOutcome OutcomeOf(const JobEnd& end) {
  const auto& peer = end.peer_failure;
  JobOutcome outcome{.exit_code = end.unstyled_code,
                     .worker_code = end.stop_signal ? end.worker_code : std::nullopt,
                     .interrupted = end.stop_signal == SIGINT || end.stop_signal == SIGQUIT};
  // The failure of a worker comes with its record, the failure of a node does not.
  outcome.lost_node = peer && peer->exit_code == ExitStatus(Code::kFailed) && !WorkerOf(*peer);
  // Without node rank 0 all others ask, and SLURM takes the first request.
  outcome.may_requeue = end.node_rank == 0 || (outcome.lost_node && peer->node_rank <= 0);
  return outcome;
}

void ReportHang(const AgentPlan& plan, const HangReport& hang, Console& console) {
  const TextStyle style = StyleOf(STDERR_FILENO, plan.color);
  HangReport report = hang;
  report.several_nodes = plan.options.several_nodes();
  console.err().WriteLines(RenderHang(report, plan.target.name, style));
}

void ReportJobEnd(const AgentPlan& plan, const JobEnd& end, Console& console, const Log& log) {
  const std::string parent_file = plan.env.GetOr("TORCHELASTIC_ERROR_FILE", "");
  if (!parent_file.empty() && end.worker_failed) {
    const AttemptEnd& last = end.attempts.back();
    const WorkerRecord& worker = last.workers[*last.first_failure];
    const Status told = CopyErrorFile(worker.error_file, *worker.exit, parent_file);
    if (!told.ok()) log.Warning("TORCHELASTIC_ERROR_FILE: " + told.error().what);
  }
  console.err().WriteLines(RenderJobEnd(end, StyleOf(STDERR_FILENO, plan.color)));
  const Options& options = plan.options;
  if (options.outcome != nullptr) {
    *options.outcome = OutcomeOf(end);
    if (options.outcome->may_requeue) ::signal(SIGTERM, SIG_IGN);
  }
  if (options.report_file.empty()) return;
  const std::string path = ReportPath(
      options.report_file, end.has_node_rank ? std::optional(end.node_rank) : std::nullopt,
      plan.host, options.several_nodes());
  const Status written = WriteReportFile(path, RenderReportJson(end));
  if (!written.ok()) log.Error(written.error().what);
}

}  // namespace ddprun::launcher
