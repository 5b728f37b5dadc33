// Pure: whom the others wait for when workers hang, as far as it can be told, and what a person
// reads.
#pragma once

#include <chrono>
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

// ddprun's exit code for a job that it ended because it hung: that of timeout(1).
inline constexpr int kHangExitCode = 124;

struct HangReport {
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds still_for{0};  // since any worker of this node moved
  std::chrono::steady_clock::time_point now;
  std::vector<Standing> standings = {};  // of the workers that live, by rank
  std::vector<Standing> ended = {};      // of those that have ended with code 0, by rank
  std::vector<StoreWait> waits = {};     // in a store that this node hosts
  Culprit culprit = {};
  bool printed_stacks = false;  // the workers printed something after they were told to end
};

// One line for logs and other nodes: "no worker has moved for 300 s: rank 2 has not come to
// all_reduce 418".
std::string Summarize(const HangReport& report);

// The whole screen, ending in a newline: whom the others wait for, then where every rank stands,
// the culprits first. `color`: for a terminal.
std::string RenderHang(const HangReport& report, const std::string& program, bool color);

// "waits in all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57 for 312 s".
std::string DescribeStanding(const Standing& standing, std::chrono::steady_clock::time_point now);

}  // namespace ddprun::launcher
