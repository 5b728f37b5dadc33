// Pure: what a worker's flight recorder shows, in words.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/flight_reader.h"

namespace ddprun::launcher {

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

}  // namespace ddprun::launcher
