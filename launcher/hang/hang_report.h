// Pure: what a person reads when the workers hang.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/hang/culprit.h"
#include "launcher/hang/standing.h"
#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

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
