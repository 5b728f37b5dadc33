// The state that the Work objects of a HostProcessGroup share with it, because they may outlive it.
// Internal to HostProcessGroup.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base/failure.h"
#include "trainer/comm/collectives.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/comm/mailbox.h"
#include "trainer/comm/node_placement.h"
#include "trainer/comm/operation_queue.h"

namespace ddprun::trainer {

struct HostProcessGroupCore {
  using Options = HostProcessGroup::Options;

  const NodePlacement placement;
  const GroupWire wire;
  const std::shared_ptr<SharedRegion> region;  // the memory of this node's ranks
  const std::shared_ptr<FlightRecorder> recorder;
  const int generation;
  const std::chrono::nanoseconds spin;
  std::atomic<std::chrono::milliseconds> timeout;
  std::atomic<AllReduceAlgorithm> algorithm = AllReduceAlgorithm::kDirect;
  std::atomic<uint64_t> begun = 0;  // collectives begun so far
  const double link_gigabit;
  const decltype(Options::reconnect) reconnect;
  const std::unique_ptr<Collectives> collectives;
  Collectives& group;
  Mailbox mailbox;
  OperationQueue queue;  // the last member, because its thread uses the group

  HostProcessGroupCore(std::shared_ptr<SharedRegion> memory,
                       const Options& options,
                       std::chrono::nanoseconds spin_time);

  std::unique_ptr<Collectives> MakeCollectives() const;
  uint16_t RecordedGroup() const;  // Collective::group
  std::optional<int> AllRanksGeneration() const;
  int local_rank() const { return placement.LocalOf(placement.rank()); }
  Clock::time_point Deadline(std::chrono::milliseconds own) const {
    return Clock::now() + (own == c10d::kUnsetTimeout ? timeout.load() : own);
  }
};

}  // namespace ddprun::trainer
