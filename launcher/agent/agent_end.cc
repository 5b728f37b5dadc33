// The agent's last words: why the job ended here, and who is told.
#include <unistd.h>

#include "launcher/agent/agent.h"
#include "launcher/agent/parent_error_file.h"
#include "launcher/hang/hang_report.h"
#include "launcher/report/report_file.h"
#include "launcher/report/report_json.h"
#include "launcher/report/terminal_style.h"

namespace ddprun::launcher {

JobCauses Agent::Causes() const {
  JobCauses causes{.own_node_rank = node_rank(),
                   .several_nodes = plan_.options.several_nodes(),
                   .round_end = round_end_,
                   .error = error_,
                   .refusal = refusal_,
                   .stop_signal = stop_signal_};
  if (attempt_ == nullptr) return causes;
  const WorkerGroup& group = attempt_->group();
  if (group.first_failure()) causes.first_failure = group.Records()[*group.first_failure()].exit;
  causes.stopped_code = group.first_nonzero_code();
  causes.hung = attempt_->hang().has_value();
  return causes;
}

JobEnd Agent::DescribeEnd() const {
  const JobCauses causes = Causes();
  JobEnd end;
  end.program = plan_.target.name;
  end.host = plan_.host;
  if (plan_.target.is_python) end.interpreter = plan_.target.program;
  end.attempts = history_.attempts();
  end.worker_failed = EndedByOwnWorker(causes);
  if (!refusal_) end.error = error_;
  if (EndedElsewhere(causes)) end.peer_failure = round_end_;
  end.stop_signal = stop_signal_;
  end.unkillable = unkillable_;
  end.job_id = plan_.job_id;
  end.run_id = plan_.run_id;
  end.exit_code = StyledExitCode(JobExitCode(causes), plan_.options.exit_code);
  end.node_rank = node_rank();
  end.started_at = history_.started_at();
  end.ended_at = std::chrono::system_clock::now();
  end.log = log_.LastLines();
  return end;
}

void Agent::Report(const JobEnd& end) {
  surroundings_.console.err().WriteLines(
      RenderJobEnd(end, TerminalStyle(STDERR_FILENO, plan_.color)));
  const Options& options = plan_.options;
  if (options.report_file.empty()) return;
  const std::string path =
      ReportPath(options.report_file, end.node_rank, plan_.host, options.several_nodes());
  const Status written = WriteReportFile(path, RenderReportJson(end));
  if (!written.ok()) log_.Error(written.error().what);
}

std::string Agent::HangText() const {
  const std::optional<HangReport> hang = attempt_ == nullptr ? std::nullopt : attempt_->hang();
  return hang ? RenderHang(*hang, plan_.target.name, plan_.color) : "";
}

void Agent::TellParent() const {
  const std::optional<std::string> parent_file = plan_.env.Get("TORCHELASTIC_ERROR_FILE");
  if (!parent_file || parent_file->empty() || !EndedByOwnWorker(Causes())) return;
  const WorkerGroup& group = attempt_->group();
  const WorkerRecord worker = group.Records()[*group.first_failure()];
  const Status told = PassErrorFileOn(worker.error_file, *worker.exit, *parent_file);
  if (!told.ok()) log_.Warning(told.error().what);
}

}  // namespace ddprun::launcher
