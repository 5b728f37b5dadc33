// A view of the jobs of this machine: what they and their ranks do now.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
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

struct TopSample {
  std::vector<JobSample> jobs;
  // The pids and users of jobs that this user may not read.
  std::vector<std::pair<pid_t, std::string>> unreadable = {};
};

// Returns what /proc and the flight recorders have of the jobs of this machine; if `name` is not
// "", only of those that it names: the pid of a ddprun, the number of a SLURM job, or the folder of
// a run. Error: there is none ("no-such-job").
Result<TopSample> SampleJobs(const std::string& name);

// Pure. Sets the shares of CPU to those since `before`, an earlier sample.
void MeasureSince(std::span<const JobSample> before, std::span<JobSample> now);

// Returns the collective or message for which the rank has waited longest; nullptr means that it
// does not wait.
const RecordedCollective* LongestWait(const FlightSnapshot& flight);

}  // namespace ddprun::launcher
