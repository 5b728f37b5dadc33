// The runs that --sweep asks for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

struct SweepRun {
  std::vector<std::pair<std::string, std::string>> values;  // key, value; in the order of --sweep
  std::string name;                                         // a folder's name, unique in the sweep
  // Returns the run's values as texts for --set.
  std::vector<std::string> Overrides() const;
};

// How a sweep with ranges draws.
struct SweepChoice {
  int runs = 0;  // 0 means that there is no range
  uint64_t seed = 0;
};

// Returns all combinations of "key=v1,v2" texts; the last key changes fastest. Commas inside
// brackets and quotes belong to a value.
//
// With a range (sweep_range.h) in a text, returns `choice.runs` runs, each with a value of each key
// drawn at random. A seed gives the same first runs for any number of runs.
//
// kUsage: no values, a key twice, over 10,000 runs, a bad range, a range without `choice.runs` or
// the other way round.
Result<std::vector<SweepRun>> PlanSweep(const std::vector<std::string>& texts,
                                        const SweepChoice& choice = {});

}  // namespace ddprun::launcher
