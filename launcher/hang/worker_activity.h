// The activity of a worker when a job hangs, from its flight recorder and /proc, and its texts.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/flight_reader.h"
#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

// The present state of a process in /proc.
struct ProcessPlace {
  char state = '?';  // as in ps: R, S, D, T, t, Z; '?' means that it could not be read
  std::optional<long> system_call = {};  // its number; nullopt means none, or unreadable
  std::string where = {};                // "read of pipe:[81]"; "" means unknown
};

struct WorkerActivity {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  std::optional<FlightSnapshot> flight = {};  // if the worker writes one
  ProcessPlace place = {};
  std::chrono::milliseconds still_for{0};   // since the worker moved last
  std::chrono::milliseconds silent_for{0};  // since the worker printed something last, or began
};

// Returns whether the worker is in `group` (Collective::group).
bool IsIn(const WorkerActivity& activity, uint16_t group);

// Returns "12.3 s", "312 s"; never less than 0.
std::string SecondsText(std::chrono::milliseconds time);

// Returns "rank 2", "ranks 2 and 3", "ranks 2, 3 and 14 others". REQUIRES: at least one rank.
std::string RankList(const std::vector<int>& ranks);

// Returns "all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57".
std::string Describe(const RecordedCollective& collective);

// Describes a living worker: "waits in all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57 for
// 312 s".
std::string DescribeFlight(const FlightSnapshot& flight, RecordedCollective::Time now);

// Describes a worker at the time `then`, for a sentence that begins with "until then": "waited in
// all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57 for 12 ms".
std::string DescribePastFlight(const FlightSnapshot& flight, RecordedCollective::Time then);

// Reads the state of a process from /proc. Only an ancestor may read its system call.
ProcessPlace ReadProcessPlace(pid_t pid);

// Returns the CPU time of each worker with all its descendants, by the worker's pid. Leaves out
// workers that have ended. Reads the whole process table once.
std::map<pid_t, std::chrono::milliseconds> CpuTimes(std::span<const LiveWorker> workers);

}  // namespace ddprun::launcher
