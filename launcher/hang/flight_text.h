// Pure: what a worker's flight recorder shows, in words.
#pragma once

#include <chrono>
#include <string>

#include "base/flight_reader.h"

namespace ddprun::launcher {

// "12.3 s", "312 s"; never less than 0.
std::string SecondsText(std::chrono::milliseconds time);

// Of a worker that is there: "waits in all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57 for
// 312 s".
std::string DescribeFlight(const FlightSnapshot& flight, RecordedCollective::Time now);

// Of a worker as it was at `then`, for a sentence that begins with "until then": "waited in
// all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57 for 12 ms".
std::string DescribePastFlight(const FlightSnapshot& flight, RecordedCollective::Time then);

}  // namespace ddprun::launcher
