// The ways to make a HostProcessGroup, and what its parts are made of.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <ddprun/process_group.h>
#include "base/flight_recorder.h"
#include "base/unique_fd.h"
#include "trainer/comm/data_type.h"
#include "trainer/comm/node_link.h"
#include "trainer/comm/operation_queue.h"
#include "trainer/comm/shared_region.h"

namespace ddprun {

struct HostProcessGroup::Options {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout = std::chrono::seconds(100);
  // The number of this group. Other groups of all ranks in this memory have other numbers.
  int generation = 0;
  std::shared_ptr<FlightRecorder> recorder = {};  // records collectives; nullptr: none
  // The node of each rank (ConnectNodes). Empty: all ranks are on one node.
  std::vector<int> node_of_rank = {};
  // The ranks' numbers in the job, for errors and the recorder. Empty: as in this group.
  std::vector<int> names = {};
  trainer::GroupWire wire = {};
  // Connects the ranks of all nodes anew for a generation; `check` throws Failure to give up.
  // Empty: ranks on several nodes are not replaced.
  using Check = std::function<void()>;
  std::function<trainer::GroupWire(int generation, const Check& check)> reconnect = {};
  size_t heap_bytes = trainer::kHeapBytes;  // address space for each rank; equal on all ranks
  double link_gigabit = 0;  // the rate of an emulated link (emulated_link.h); 0: none

  int LocalSize() const;  // the number of ranks on this node
};

inline int HostProcessGroup::Options::LocalSize() const {
  if (node_of_rank.empty()) return size;
  const int node = node_of_rank[static_cast<size_t>(rank)];
  return static_cast<int>(std::ranges::count(node_of_rank, node));
}

}  // namespace ddprun
