// Pure: whom the others wait for, as far as it can be told.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/hang/standing.h"
#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

struct Culprit {
  std::vector<int> ranks;  // in order; empty: no rank stands out
  std::string reason;      // "has not come to all_reduce 418": what is true of each of them
};

// The first of these that is true of some ranks:
//  - stopped by a signal or a debugger (state T);
//  - has not come to a collective in which others wait;
//  - hangs in the kernel (state D);
//  - does not wait in the store, where others do;
//  - alone is in another system call than all the others, if they are two or more;
//  - alone moved last long before the others did.
Culprit FindCulprit(std::span<const Standing> standings, std::span<const StoreWait> waits);

// The collective that the rank is in or was in last: the one that begun last. nullptr: none.
const RecordedCollective* LastCollective(const FlightSnapshot& flight);

}  // namespace ddprun::launcher
