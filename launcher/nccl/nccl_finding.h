// Finds out from the dumps of PyTorch's flight recorder why ranks wait in an NCCL group. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/nccl/nccl_dump.h"

namespace ddprun::launcher {

struct NcclFinding {
  std::vector<int> ranks = {};  // for which the others wait, sorted; empty: no rank stands out
  std::string reason = {};      // true of each: "has not come to all_reduce 2 of group 0"
  std::vector<std::string> lines = {};  // with a title, for a report; empty: nobody waits
  // With a title: each rank's last call. Ranks of another node may wait for these ranks.
  std::vector<std::string> last_calls = {};
};

// `dumps` may lack ranks of the groups, as those of other nodes. The ranks that are named have not
// come to a collective and wait for nothing themselves; or, if there is no such rank, they are
// fewer than the others that called something else.
NcclFinding ExplainNccl(std::span<const NcclDump> dumps);

}  // namespace ddprun::launcher
