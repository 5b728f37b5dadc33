#include "launcher/agent/job_output.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "launcher/agent/output_plan.h"
#include "launcher/output/log_file.h"
#include "launcher/report/report_file.h"

namespace ddprun::launcher {

namespace {

bool Any(const StreamsPerRank& streams) {
  const auto any = [](const Streams& of_rank) { return of_rank.out || of_rank.err; };
  return any(streams.all) || std::any_of(streams.of_rank.begin(), streams.of_rank.end(),
                                         [&](const auto& row) { return any(row.second); });
}

Result<LogFolder> MakeLogFolder(const AgentPlan& plan, const Log& log) {
  const Options& options = plan.options;
  if (!options.log_dir.empty()) return LogFolder::Create(options.log_dir, plan.run_id());
  if (!Any(options.redirects) && !Any(options.tee)) return LogFolder::In(plan.job_folder);
  const std::string beside = std::filesystem::path(plan.job_folder).parent_path();
  DDPRUN_ASSIGN(LogFolder logs, LogFolder::Create(beside, "ddprun_logs_" + plan.run_id()));
  log.Info("no --log_dir was given; logs go to " + logs.path());
  return logs;
}

}  // namespace

Status CopyToLogFile(const AgentPlan& plan, Console& console, Log& log) {
  if (plan.options.log_file.empty()) return {};
  const int node_rank = plan.options.rdzv.node_rank.value_or(0);
  DDPRUN_ASSIGN(LogFile file,
                LogFile::OpenLauncherLog(
                    ReportPath(plan.options.log_file, node_rank, plan.host, false), console.files(),
                    [&log](const std::string& text) { log.Warning(text); }));
  log.CopyTo([file = std::make_shared<LogFile>(std::move(file))](std::string_view line) {
    file->Write(std::string(line) + "\n");
  });
  return {};
}

Result<JobOutput> JobOutput::Create(const AgentPlan& plan, Console& console, const Log& log) {
  DDPRUN_ASSIGN(LogFolder logs, MakeLogFolder(plan, log));
  console.out().OnLost([log](int error) {
    log.Warning("standard output cannot be written to any more: " +
                (error == EPIPE ? "its reader has ended" : ErrnoText(error)));
  });
  return JobOutput(plan, console, std::move(logs));
}

Result<AttemptOutput> JobOutput::MakeAttempt(const rendezvous::Membership& membership) const {
  AttemptOutput attempt;
  DDPRUN_ASSIGN(attempt.folder,
                logs_.MakeAttempt(membership.restart_count, plan_->local_world_size()));
  const Environment& env = plan_->env;
  attempt.plan =
      PlanOutput(plan_->options,
                 {.membership = membership,
                  .local_world_size = plan_->local_world_size(),
                  .host = plan_->host,
                  .attempt_folder = attempt.folder,
                  .is_trainer_config = plan_->target.is_trainer_config,
                  .out_is_terminal = console_->out().is_terminal(),
                  .err_is_terminal = console_->err().is_terminal(),
                  .color = env.GetOr("NO_COLOR", "").empty() && env.GetOr("TERM", "") != "dumb",
                  .prefix_template = env.GetOr("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "")});
  return attempt;
}

}  // namespace ddprun::launcher
