#include "launcher/agent/job_result.h"

#include <signal.h>

#include <algorithm>
#include <sstream>

#include "base/last_words.h"
#include "base/signal_name.h"
#include "base/slurm_step.h"
#include "base/stop_signals.h"
#include "base/text.h"
#include "launcher/hang/hang_report.h"
#include "launcher/report/exit_text.h"
#include "launcher/report/peer_worker.h"

namespace ddprun::launcher {

namespace {

bool JobFailed(const JobCauses& causes) {
  return causes.round_end && causes.round_end->kind == rendezvous::RoundEnd::Kind::kJobFailed;
}

bool EndsGently(const rendezvous::RoundEnd& end) {
  const bool node_came =
      end.kind == rendezvous::RoundEnd::Kind::kRegroup && end.node_rank < 0 && !end.stop_within;
  return node_came || end.exit_code == kStoppedStatus || end.exit_code == StoppedCode(SIGINT);
}

// Returns whether signals have stopped both the other node and this node, which says so in its log.
bool StoppedEverywhere(const JobCauses& causes) {
  return EndedElsewhere(causes) && causes.stop_signal && IsStop(*causes.round_end);
}

// Returns the warning by which another node was stopped, else SIGTERM. A warning leaves the workers
// of this node as much time as those of the other, also if this node's own comes later or never.
int SignalOfOtherNode(const rendezvous::RoundEnd& end) {
  for (const int warning : {SIGUSR1, SIGUSR2}) {
    if (end.message.ends_with(StopMessage("", warning))) return warning;
  }
  return SIGTERM;
}

bool StoppedElsewhere(const JobCauses& causes) {
  return causes.saves && EndedElsewhere(causes) && EndsGently(*causes.round_end);
}

}  // namespace

bool StopsGently(const JobCauses& causes) {
  if (causes.hung) return true;
  if (causes.error || causes.refusal || causes.stop_signal == SIGQUIT) return false;
  return causes.round_end ? EndsGently(*causes.round_end) : causes.stop_signal.has_value();
}

std::string StopMessage(const std::string& node, int signal) {
  return node + " was stopped by " + SignalName(signal);
}

int SaveSignal(const JobCauses& causes) {
  const auto& end = causes.round_end;
  const bool rejoins = end && end->kind == rendezvous::RoundEnd::Kind::kRegroup;
  if (!causes.stop_signal) {
    if (rejoins) return kRejoinSignal;
    return end ? SignalOfOtherNode(*end) : SIGTERM;
  }
  const int signal = *causes.stop_signal;
  const bool known = signal == SIGINT || signal == SIGUSR1 || signal == SIGUSR2;
  return known ? signal : SIGTERM;
}

int StoppedCode(int signal) {
  const bool by_hand = signal == SIGINT || signal == SIGQUIT;
  return by_hand ? 128 + signal : kStoppedStatus;
}

bool EndedElsewhere(const JobCauses& causes) {
  return JobFailed(causes) && causes.round_end->node_rank != causes.own_node_rank;
}

void AddAttempt(const RunningAttempt& attempt, JobCauses& causes) {
  const WorkerGroup& group = attempt.group();
  if (const auto first = group.first_failure()) {
    causes.first_failure = group.workers().Records()[*first].exit;
  }
  causes.stopped_code = group.workers().first_nonzero_code();
  causes.ended_well = group.workers().ended_well();
  causes.failed_to_save = group.failed_to_save();
  causes.hung = attempt.hang().has_value();
}

bool EndedByOwnWorker(const JobCauses& causes) {
  if (!causes.first_failure || causes.error || causes.refusal) return false;
  return !causes.round_end || JobFailed(causes);
}

std::vector<std::string> RestartLines(const AgentPlan& plan,
                                      const rendezvous::Membership& membership,
                                      const rendezvous::RoundEnd& end) {
  if (end.kind == rendezvous::RoundEnd::Kind::kRegroup) {
    return {end.message + "; the nodes join anew"};
  }
  std::vector<std::string> lines = {end.message + "; restart " +
                                    std::to_string(membership.restart_count + 1) + " of " +
                                    std::to_string(plan.options.rdzv.rules.max_restarts)};
  if (const auto worker = WorkerOf(end)) {
    const auto words = SplitLines(RenderAttemptFailure(worker->record, worker->host));
    lines.insert(lines.end(), words.begin() + 1, words.end());
  }
  return lines;
}

int JobExitCode(const JobCauses& causes) {
  // All nodes have the same first end of a round, so an end of another node came before this
  // node's.
  const bool well = causes.saves && causes.ended_well;
  const bool done = well && !causes.stopped_code;  // the run was complete when the signal came
  if (EndedElsewhere(causes) && !(StoppedElsewhere(causes) && done)) {
    return causes.round_end->exit_code;
  }
  if (causes.refusal) return *causes.refusal;
  if (causes.error) return ExitStatus(causes.error->code);
  if (causes.hung && (!causes.round_end || JobFailed(causes))) return kHangExitCode;
  if (EndedByOwnWorker(causes)) return FailureCode(*causes.first_failure);
  if (done || !causes.stop_signal) return well ? causes.stopped_code.value_or(0) : 0;
  const int stopped = 128 + *causes.stop_signal;
  if (causes.saves) {
    const bool lost = causes.failed_to_save && !causes.several_nodes;
    return lost ? stopped : StoppedCode(*causes.stop_signal);
  }
  // A batch system may want the worker's code, which can mean "put me back into the queue". With
  // several nodes, the others already have the signal's code, so this node uses it, too.
  return causes.several_nodes ? stopped : causes.stopped_code.value_or(stopped);
}

JobEnd DescribeEnd(const AgentPlan& plan, const JobCauses& causes, const JobHistory& history) {
  JobEnd end;
  end.program = plan.target.name;
  end.host = plan.host;
  if (plan.target.is_python) end.interpreter = plan.target.program;
  end.attempts = history.attempts();
  // A restart may fail before it has left a command; that of the attempt before holds still.
  for (const AttemptEnd& attempt : end.attempts) {
    for (const WorkerRecord& worker : attempt.workers) {
      if (!worker.resume_command.empty()) end.resume_command = worker.resume_command;
    }
  }
  end.worker_failed = EndedByOwnWorker(causes);
  const bool needed = !causes.error || causes.error->code != Code::kNotNeeded;
  if (!causes.refusal && needed) end.error = causes.error;
  if (EndedElsewhere(causes) && !StoppedElsewhere(causes) && !StoppedEverywhere(causes)) {
    end.peer_failure = causes.round_end;
  }
  if (IsSlurmStep(plan.env)) end.slurm_step = SlurmStepName(plan.env);
  end.stop_signal = causes.stop_signal;
  end.unkillable = causes.unkillable;
  end.job_id = plan.job_id;
  end.run_id = plan.run_id();
  end.unstyled_code = JobExitCode(causes);
  end.exit_code = StyledExitCode(end.unstyled_code, plan.options.exit_code);
  end.worker_code = causes.stopped_code;
  end.node_rank = causes.own_node_rank;
  end.started_at = history.started_at();
  end.ended_at = std::chrono::system_clock::now();
  return end;
}

std::string ExitBarrierLine(std::chrono::milliseconds limit, bool goes) {
  std::ostringstream line;
  line << "the workers of this node have ended well, those of other nodes have not "
       << static_cast<double>(limit.count()) / 1000 << " s later (--exit_barrier_timeout); "
       << (goes ? "leaving without them" : "waiting on, since they need what this node hosts");
  return line.str();
}

int StyledExitCode(int code, ExitCodeStyle style) {
  const bool known_to_torchrun = code == 0 || code == ExitStatus(Code::kUsage);
  return style == ExitCodeStyle::kWorker || known_to_torchrun ? code : 1;
}

rendezvous::RoundEnd::Kind EndAfterFailure(int restart_count, int max_restarts) {
  using enum rendezvous::RoundEnd::Kind;
  return restart_count < max_restarts ? kRestart : kJobFailed;
}

std::chrono::milliseconds CrashLoop::PauseAfter(std::chrono::milliseconds lifetime) {
  constexpr std::chrono::milliseconds kFirstPause{250};
  constexpr int kMostDoublings = 4;
  if (lifetime >= kLongEnough) short_lives_ = 0;
  const int before = short_lives_++;
  if (before == 0) return std::chrono::milliseconds(0);
  return kFirstPause * (1 << std::min(before - 1, kMostDoublings));
}

}  // namespace ddprun::launcher
