#include "trainer/comm/emulated_link.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/flight_recorder.h"
#include "trainer/comm/data_type.h"
#include "trainer/comm/futex_wait.h"

namespace ddprun::trainer {

namespace {

double TensorsOfAllReduce(AllReduceAlgorithm algorithm, double ranks) {
  switch (algorithm) {
    case AllReduceAlgorithm::kDirect:
    case AllReduceAlgorithm::kRing:
    case AllReduceAlgorithm::kHierarchical:
      return 2 * (ranks - 1) / ranks;
    case AllReduceAlgorithm::kReduceBroadcast:
      return 2 * (ranks - 1);
    case AllReduceAlgorithm::kAllToAll:
      break;
  }
  return ranks - 1;
}

// Returns how often header.bytes travel on the busiest link in one direction.
double Times(const OperationHeader& header, double ranks) {
  switch (static_cast<CollectiveKind>(header.kind)) {
    case CollectiveKind::kAllReduce:
      return TensorsOfAllReduce(static_cast<AllReduceAlgorithm>(header.algorithm), ranks);
    case CollectiveKind::kReduce:
    case CollectiveKind::kBroadcast:
      return 1;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
      return ranks - 1;  // the bytes are those of one rank
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kScatter:
    case CollectiveKind::kAllToAll:
      return (ranks - 1) / ranks;
    case CollectiveKind::kBarrier:
    case CollectiveKind::kReceive:
    case CollectiveKind::kReceiveFromAny:
    case CollectiveKind::kOther:
      break;
  }
  return 0;
}

}  // namespace

double SecondsOnLink(const OperationHeader& header, int ranks, double gigabit) {
  if (ranks == 1) return 0;
  return static_cast<double>(header.bytes) * Times(header, ranks) * 8 / (gigabit * 1e9);
}

void WaitOnLink(double seconds, const std::atomic<bool>& cancelled) {
  constexpr std::chrono::milliseconds kLook{10};
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  for (auto now = Clock::now(); now < end && !cancelled; now = Clock::now()) {
    std::this_thread::sleep_until(std::min(end, now + kLook));
  }
}

}  // namespace ddprun::trainer
