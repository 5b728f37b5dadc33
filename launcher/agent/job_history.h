// Remembers what happened on this node since the job began, for the reports.
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

// Use it on the loop thread only.
class JobHistory {
 public:
  // `job_folder` is private to the job and removed after it.
  JobHistory(std::string host, std::string job_folder)
      : host_(std::move(host)), job_folder_(std::move(job_folder)) {}

  // Begins an attempt. Call it before the attempt's workers start.
  void BeginAttempt(const rendezvous::Membership& membership);
  // Returns what this node tells the other nodes about a worker of it that has just failed first.
  rendezvous::RoundEnd RoundEndBy(const WorkerRecord& worker) const;
  // Returns whether the worker ran out of memory, as far as this machine knows.
  bool RanOutOfMemory(const WorkerRecord& worker) const;
  // Ends the attempt. Call it when no worker is left and the output is complete. `round_end` is how
  // its round ended; nullopt means that no node ended it early.
  void EndAttempt(const RunningAttempt& attempt,
                  const std::optional<rendezvous::RoundEnd>& round_end);

  // Returns the attempts that have ended, the oldest first. If there are many, it has only the
  // first attempt and the last ones.
  const std::vector<AttemptEnd>& attempts() const { return attempts_; }
  std::chrono::system_clock::time_point started_at() const { return started_at_; }

 private:
  static constexpr size_t kMostAttempts = 100;
  // Adds to the records what this machine knows about the ends of the workers.
  void Complete(std::vector<WorkerRecord>& workers) const;

  std::string host_;
  std::string job_folder_;
  std::chrono::system_clock::time_point started_at_ = std::chrono::system_clock::now();
  std::unique_ptr<Evidence> evidence_;  // of the current attempt
  AttemptEnd current_;
  std::vector<AttemptEnd> attempts_;
};

}  // namespace ddprun::launcher
