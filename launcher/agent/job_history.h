// What has happened on this node since the start, kept for the reports.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/running_attempt.h"
#include "launcher/report/evidence.h"
#include "launcher/report/job_end.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// Loop thread only.
class JobHistory {
 public:
  // `job_folder`: private, removed after the job.
  JobHistory(std::string host, std::string job_folder)
      : host_(std::move(host)), job_folder_(std::move(job_folder)) {}

  // An attempt's workers are about to be started.
  void BeginAttempt(const rendezvous::Membership& membership);
  // What the other nodes are told of a worker that has just failed.
  rendezvous::RoundEnd TellOf(const WorkerRecord& worker) const;
  // As far as this machine knows.
  bool RanOutOfMemory(const WorkerRecord& worker) const;
  // None of the attempt's workers is left, and its output is complete. `round_end`: how its round
  // ended, if it did not simply succeed.
  void EndAttempt(const RunningAttempt& attempt,
                  const std::optional<rendezvous::RoundEnd>& round_end);

  // Oldest first; the last one too, once it has ended. Of many the first and the last ones.
  const std::vector<AttemptEnd>& attempts() const { return attempts_; }
  std::chrono::system_clock::time_point started_at() const { return started_at_; }

 private:
  static constexpr size_t kMostAttempts = 100;
  // Adds what this machine knows.
  void Complete(std::vector<WorkerRecord>& workers) const;

  std::string host_;
  std::string job_folder_;
  std::chrono::system_clock::time_point started_at_ = std::chrono::system_clock::now();
  std::unique_ptr<Evidence> evidence_;  // of the attempt that runs
  AttemptEnd current_;
  std::vector<AttemptEnd> attempts_;
};

}  // namespace ddprun::launcher
