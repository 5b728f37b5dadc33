#include "launcher/agent/job_history.h"

#include <utility>

#include "launcher/agent/nccl_report.h"
#include "launcher/report/exit_text.h"
#include "launcher/report/peer_worker.h"

namespace ddprun::launcher {

void JobHistory::BeginAttempt(const rendezvous::Membership& membership) {
  evidence_ = std::make_unique<Evidence>();
  current_ = AttemptEnd{.membership = membership, .started_at = std::chrono::system_clock::now()};
}

rendezvous::RoundEnd JobHistory::RoundEndBy(const WorkerRecord& worker) const {
  std::vector<WorkerRecord> known = {worker};
  Complete(known);
  known[0].nccl = ReadNcclFinding(NcclFolder(worker)).lines;
  return {.message = Summarize(worker, host_),
          .exit_code = FailureCode(*worker.exit),
          .worker = ToJson(
              PeerWorker{.host = host_, .time = TimeText(worker.ended_at), .record = known[0]})};
}

bool JobHistory::RanOutOfMemory(const WorkerRecord& worker) const {
  std::vector<WorkerRecord> known = {worker};
  Complete(known);
  return known[0].out_of_memory.has_value();
}

void JobHistory::EndAttempt(const RunningAttempt& attempt,
                            const std::optional<rendezvous::RoundEnd>& round_end) {
  const WorkerGroup& group = attempt.group();
  current_.workers = group.workers().Records();
  Complete(current_.workers);
  Evidence::AddGpus(current_.workers);
  current_.first_failure = group.first_failure();
  if (group.first_failure()) current_.failure_time = group.first_failure_time();
  current_.ended_at = std::chrono::system_clock::now();
  if (round_end && round_end->node_rank != current_.membership.node_rank) {
    current_.ended_elsewhere = round_end;
  }
  const auto hang = attempt.hang();
  if (hang) {
    current_.hang = Summarize(*hang);
    current_.nccl = hang->nccl;
  } else if (round_end && !current_.workers.empty()) {
    const NcclFinding finding = ReadNcclFinding(NcclFolder(current_.workers[0]));
    const bool may_be_awaited = finding.lines.empty() && current_.ended_elsewhere;
    current_.nccl = may_be_awaited ? finding.last_calls : finding.lines;
  }
  if (current_.first_failure) current_.workers[*current_.first_failure].nccl = current_.nccl;
  attempts_.push_back(std::move(current_));
  // Keeps the first attempt and drops later ones, because a job whose nodes come and go may have
  // any number of attempts.
  if (attempts_.size() > kMostAttempts) attempts_.erase(attempts_.begin() + 1);
  current_ = {};
}

void JobHistory::Complete(std::vector<WorkerRecord>& workers) const {
  if (evidence_ != nullptr) evidence_->Add(workers);
  for (WorkerRecord& worker : workers) {
    worker.error_file_removed = worker.error_file.starts_with(job_folder_ + "/");
  }
}

}  // namespace ddprun::launcher
