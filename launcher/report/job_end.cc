#include "launcher/report/job_end.h"

#include <ctime>

#include "base/terminal.h"
#include "base/text.h"
#include "launcher/report/peer_worker.h"

namespace ddprun::launcher {

namespace {

std::string WorkerFailure(const JobEnd& end, const TextStyle& style) {
  const AttemptEnd& last = end.attempts.back();
  FailureReport report{.program = end.program,
                       .host = end.host,
                       .time = TimeText(last.failure_time),
                       .interpreter = end.interpreter,
                       .first = last.workers[*last.first_failure]};
  for (size_t i = 0; i < last.workers.size(); ++i) {
    if (i != *last.first_failure) report.others.push_back(last.workers[i]);
  }
  return RenderFailure(report, style);
}

std::string Sentence(const std::string& message) {
  return message.ends_with('.') ? message : message + ".";
}

std::string PeerStop(const rendezvous::RoundEnd& stop, const TextStyle& style) {
  return Render({.title = "ANOTHER NODE WAS STOPPED",
                 .where = "node " + std::to_string(stop.node_rank),
                 .what = Sentence(stop.message),
                 .hint = "This node's workers were stopped, too. That node's output names the "
                         "sender of the signal.",
                 .page = "another-node-failed"},
                style);
}

// Returns a sentence about `scancel` if the loss of a node may come from it.
std::string CancelHint(const JobEnd& end) {
  const bool closed = end.peer_failure->message.find("connection was closed") != std::string::npos;
  if (end.slurm_step.empty() || !closed) return "";
  const std::string job = end.slurm_step.substr(0, end.slurm_step.find('.'));
  return "\nIf the step was cancelled: `scancel " + end.slurm_step +
         "` kills all its processes at once. `scancel " + job + "` and\n`scancel --signal=TERM " +
         end.slurm_step + "` let them end by themselves.";
}

std::string PeerFailure(const JobEnd& end, const TextStyle& style) {
  const rendezvous::RoundEnd& failure = *end.peer_failure;
  if (IsStop(failure)) return PeerStop(failure, style);
  if (const auto worker = WorkerOf(failure)) {
    const FailureReport report{.program = end.program,
                               .host = worker->host,
                               .time = worker->time,
                               .first = worker->record};
    return RenderPeerFailure(report, failure.node_rank, style);
  }
  const bool lost = failure.node_rank < 0;
  return Render({.title = lost ? "LOST THE OTHER NODES" : "ANOTHER NODE FAILED",
                 .where = lost ? "" : "node " + std::to_string(failure.node_rank),
                 .what = Sentence(failure.message),
                 .hint = std::string("This node's workers were stopped. ") +
                         (lost ? "The output of the node that hosted the rendezvous may say why."
                               : "See that node's output for the whole story.") +
                         CancelHint(end),
                 .page = "another-node-failed"},
                style);
}

// Returns what the groups of this node's ranks recorded, because the failed node knows only its
// own.
std::string OwnNccl(const JobEnd& end) {
  if (end.attempts.empty() || end.attempts.back().nccl.empty()) return "";
  return "The ranks of this node:\n" + FormatList(end.attempts.back().nccl, "\n") + "\n";
}

std::string Unkillable(const std::vector<pid_t>& pids, const TextStyle& style) {
  if (pids.empty()) return "";
  return Render(
      {.title = "PROCESSES THAT DO NOT END",
       .what = "SIGKILL did not end these processes: " + FormatList(pids, " ") + ".",
       .hint = "They hang in the kernel (state D in ps), often on a file system or a GPU driver.",
       .page = "processes-that-do-not-end"},
      style);
}

}  // namespace

bool IsStop(const rendezvous::RoundEnd& end) {
  // A worker that a signal killed comes with its record.
  return end.kind == rendezvous::RoundEnd::Kind::kJobFailed && end.worker == nullptr &&
         end.exit_code > 128;
}

std::string TimeText(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", &parts);
  return text;
}

std::string RenderJobEnd(const JobEnd& end, const TextStyle& style) {
  std::string text;
  if (end.peer_failure) text += PeerFailure(end, style) + OwnNccl(end);
  if (end.error) text += Render(*end.error, style);
  if (end.worker_failed) text += WorkerFailure(end, style);
  text += Unkillable(end.unkillable, style);
  // Also after a stop, if a worker could not save: a worker that has saved clears its command.
  if (end.exit_code != 0 && !end.resume_command.empty()) {
    text += "To go on: " + end.resume_command + "\n";
  }
  return text;
}

}  // namespace ddprun::launcher
