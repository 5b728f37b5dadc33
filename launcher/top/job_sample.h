// What a job and its ranks on this machine do now.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/hang/hang_report.h"
#include "launcher/top/local_jobs.h"

namespace ddprun::launcher {

struct RankSample {
  // Its pid is 0 while the process has not shown which rank it is, and after it has ended. Its rank
  // is -1 if no process has said it.
  WorkerActivity worker;
  int64_t memory = 0;                     // resident bytes of the worker itself
  std::chrono::milliseconds cpu_time{0};  // of the worker and its descendants
  std::chrono::milliseconds lifetime{0};  // of the process
  double cpu_share = 0;                   // 1 is one core, on average of its lifetime
};

struct JobSample {
  pid_t agent = 0;
  std::string user;
  std::string command;
  std::string slurm_job;             // "" means none
  std::string folder;                // of the run; "" means unknown
  std::chrono::seconds lifetime{0};  // of the agent
  std::chrono::steady_clock::time_point now;
  int64_t world_size = 0;  // of all nodes; 0 means unknown
  int64_t restarts = 0;
  std::vector<RankSample> ranks = {};  // by local rank; empty while the job has no workers here
  Culprit awaited = {};                // the ranks here that others have waited for, for a second
};

// Reads what /proc and the flight recorder have. A process that ends meanwhile is left out.
JobSample ReadJob(const LocalJob& job, std::span<const ProcessEntry> processes);

// Pure. Sets the shares of CPU to those since `before`, an earlier sample.
void MeasureSince(std::span<const JobSample> before, std::span<JobSample> now);

// Returns the collective or message for which the rank has waited longest; nullptr means that it
// does not wait.
const RecordedCollective* LongestWait(const FlightSnapshot& flight);

}  // namespace ddprun::launcher
