// Where one worker stands when a job hangs: what the culprit is found by and the report is made of.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/flight_reader.h"

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

}  // namespace ddprun::launcher
