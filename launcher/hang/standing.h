// Where one worker stands when a job hangs: what the culprit is found by and the report is made of.
// What its flight recorder and /proc show of it, and the first in words.
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

// What /proc says about a process at this moment.
struct ProcessPlace {
  char state = '?';                      // as in ps: R, S, D, T, t, Z; '?': it could not be read
  std::optional<long> system_call = {};  // its number; none: it computes, or it could not be read
  std::string where = {};                // "read of pipe:[81]"; empty: unknown
};

struct Standing {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  std::optional<FlightSnapshot> flight = {};  // of workers that write one
  ProcessPlace place = {};
  std::chrono::milliseconds still_for{0};   // since it moved last
  std::chrono::milliseconds silent_for{0};  // since it printed something last, or began
};

// Whether the worker is in that group (Collective::group).
bool IsIn(const Standing& standing, uint16_t group);

// "12.3 s", "312 s"; never less than 0.
std::string SecondsText(std::chrono::milliseconds time);

// "rank 2", "ranks 2 and 3", "ranks 2, 3 and 14 others". REQUIRES: at least one.
std::string RankList(const std::vector<int>& ranks);

// "all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57".
std::string Describe(const RecordedCollective& collective);

// Of a worker that is there: "waits in all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57 for
// 312 s".
std::string DescribeFlight(const FlightSnapshot& flight, RecordedCollective::Time now);

// Of a worker as it was at `then`, for a sentence that begins with "until then": "waited in
// all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57 for 12 ms".
std::string DescribePastFlight(const FlightSnapshot& flight, RecordedCollective::Time then);

// Reading another process's system call needs the right to trace it, which an ancestor has.
ProcessPlace LookAt(pid_t pid);

// CPU time of each worker with all its descendants, by the worker's pid; those that have ended are
// left out. Reads the whole process table once.
std::map<pid_t, std::chrono::milliseconds> CpuTimes(std::span<const LiveWorker> workers);

}  // namespace ddprun::launcher
