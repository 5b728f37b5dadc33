// The runs that --sweep asks for.
#pragma once

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

// Returns all combinations of "key=v1,v2" texts; the last key changes fastest. Commas inside
// brackets and quotes belong to a value. kUsage: no values, a key twice, over 10,000 runs.
Result<std::vector<SweepRun>> PlanSweep(const std::vector<std::string>& texts);

}  // namespace ddprun::launcher
