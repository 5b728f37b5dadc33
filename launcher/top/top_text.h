// Shows samples of jobs as text and as JSON. All functions are pure.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/top/job_sample.h"

namespace ddprun::launcher {

struct TopStyle {
  size_t columns = 0;  // longer lines are cut; 0 means that they are not
  bool bold = false;   // of the first line of each job
  std::string title = {};
};

// Returns what the rank does: "waits 4.6 s in all_reduce 37, bucket 0, 139 KB".
std::string DoingText(const RankSample& rank, std::chrono::steady_clock::time_point now);

// Returns a few lines about each job, then a line for each of its ranks.
std::string TopText(const TopSample& sample, const TopStyle& style);

// Returns one JSON document.
std::string TopJson(const TopSample& sample);

}  // namespace ddprun::launcher
