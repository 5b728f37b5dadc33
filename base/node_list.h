// Reads SLURM's lists of nodes, as "gpu[01-03,7],login". Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun {

// The most names that a list may have.
inline constexpr size_t kMaxNodeNames = 1 << 16;

// Returns the names in the order of the list, with repeats. Items are separated by commas; a name
// may have several brackets, of which the last counts fastest, and text after the last one. Numbers
// keep their leading zeros: "n[08-10]" is n08, n09, n10. Empty items and blanks count for nothing.
// `where` says where the list stands, such as "SLURM_STEP_NODELIST". Error: kUsage, with a caret
// below the place.
Result<std::vector<std::string>> ParseNodeList(std::string_view text, std::string_view where);

}  // namespace ddprun
