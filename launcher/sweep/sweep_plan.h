// Pure: the texts of --sweep -> the runs of a sweep.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

struct SweepRun {
  std::vector<std::pair<std::string, std::string>> values;  // key, value; in the order of --sweep
  std::string name;                                         // fit for a folder, one per run

  // As for --set.
  std::vector<std::string> Overrides() const;
};

// All combinations of "key=v1,v2" texts; the last key changes fastest. Commas inside brackets,
// braces and quotes belong to a value. kUsage for a key without values, twice the same key, or
// more than 10,000 runs.
Result<std::vector<SweepRun>> PlanSweep(const std::vector<std::string>& texts);

}  // namespace ddprun::launcher
