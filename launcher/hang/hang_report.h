// Finds the culprit if workers hang, and writes the report. All functions are pure.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "base/terminal.h"
#include "launcher/hang/dead_links.h"
#include "launcher/hang/worker_activity.h"
#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

struct Culprit {
  std::vector<int> ranks;  // sorted; empty means that no rank stands out
  std::string reason;      // true of each of them: "has not come to all_reduce 418"
};

// Returns the first of these reasons that is true of some ranks but, except the first, not of all:
//  - is stopped by a signal or a debugger (state T);
//  - has not come to a collective for which others wait;
//  - has not sent a message for which others wait;
//  - hangs in the kernel (state D);
//  - does not wait in the store while others do;
//  - is in another system call than all others, which are two or more and in one call;
//  - moved last long before the others did.
Culprit FindCulprit(std::span<const WorkerActivity> activities, std::span<const StoreWait> waits);

// Returns the first three of these reasons, which are certain.
Culprit FindAwaited(std::span<const WorkerActivity> activities);

// Returns the last collective that the worker has started; nullptr means none.
const RecordedCollective* LastCollective(const FlightSnapshot& flight);

// ddprun's exit code for a job that it ended because it hung. timeout(1) has the same.
inline constexpr int kHangExitCode = 124;

struct HangReport {
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds still_for{0};  // since a worker of this node moved last
  std::chrono::steady_clock::time_point now;
  std::vector<WorkerActivity> activities = {};  // of living workers, by rank
  std::vector<WorkerActivity> ended = {};       // of workers that have ended with code 0, by rank
  std::vector<StoreWait> waits = {};            // in a store that this node hosts
  std::vector<DeadLink> dead_links = {};
  Culprit culprit = {};
  std::vector<std::string> nccl = {};  // NcclFinding::lines
  bool several_nodes = false;
  bool printed_stacks = false;  // the workers printed something after they were told to end
};

// Returns a line for logs and other nodes: "no worker has moved for 300 s: rank 2 has not come to
// all_reduce 418". A dead link is the reason, whatever the ranks do.
std::string Summarize(const HangReport& report);

// Returns the whole report, ending in a newline: the culprit's reason, then what each rank does,
// the culprits first.
std::string RenderHang(const HangReport& report,
                       const std::string& program,
                       const TextStyle& style);

// Returns "waits in all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57 for 312 s".
std::string DescribeActivity(const WorkerActivity& activity,
                             std::chrono::steady_clock::time_point now);

}  // namespace ddprun::launcher
