#include "launcher/agent/job_result.h"

#include <sstream>

#include "launcher/hang/hang_report.h"
#include "launcher/report/exit_text.h"
#include "launcher/report/peer_message.h"

namespace ddprun::launcher {

namespace {

bool JobFailed(const JobCauses& causes) {
  return causes.round_end && causes.round_end->kind == rendezvous::RoundEnd::Kind::kJobFailed;
}

}  // namespace

bool EndedElsewhere(const JobCauses& causes) {
  return JobFailed(causes) && causes.round_end->node_rank != causes.own_node_rank;
}

bool EndedByOwnWorker(const JobCauses& causes) {
  if (!causes.first_failure || causes.error || causes.refusal) return false;
  return !causes.round_end || JobFailed(causes);
}

int JobExitCode(const JobCauses& causes) {
  // The first end of a round is the same on all nodes, so what the rendezvous passes on came first.
  if (EndedElsewhere(causes)) return DecodePeerMessage(causes.round_end->message).exit_code;
  if (causes.refusal) return *causes.refusal;
  if (causes.error) return ExitStatus(causes.error->code);
  if (causes.hung && (!causes.round_end || JobFailed(causes))) return kHangExitCode;
  if (EndedByOwnWorker(causes)) return FailureCode(*causes.first_failure);
  if (!causes.stop_signal) return 0;
  const int stopped = 128 + *causes.stop_signal;
  // A batch system may ask for a code that says "put me back into the queue". The other nodes have
  // been told of the signal before it was known.
  return causes.several_nodes ? stopped : causes.stopped_code.value_or(stopped);
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

}  // namespace ddprun::launcher
