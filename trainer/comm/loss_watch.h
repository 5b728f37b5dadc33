// Looks into the flight recorder for ranks of a group that were lost.
#pragma once

#include <optional>
#include <vector>

#include "base/flight_recorder.h"

namespace ddprun::trainer {

// For the group of all ranks in one of its generations. Any thread.
class LossWatch {
 public:
  LossWatch() = default;  // no rank is ever lost
  // `recorder` may be nullptr, and must outlive this object. `several_nodes`: ranks on other nodes
  // may be lost, too.
  LossWatch(const FlightRecorder* recorder, int generation, bool several_nodes = false)
      : recorder_(recorder), generation_(generation), several_nodes_(several_nodes) {}

  // Returns whether a wait for a rank of this node is to end. On one node each rank comes to all
  // meetings before the first one that the lost rank misses. Between nodes the ranks would miss
  // different ones, so all waits end at once.
  bool EndsWaitFor(int local_rank) const {
    if (recorder_ == nullptr) return false;
    return several_nodes_ ? recorder_->IsAnyLost(generation_)
                          : recorder_->IsLost(local_rank, generation_);
  }
  // Returns a rank of the job that was lost, if there is one.
  std::optional<int> LostRank() const {
    if (recorder_ == nullptr || !recorder_->IsAnyLost(generation_)) return std::nullopt;
    const std::vector<LostWorker> lost = recorder_->LostWorkersSince(generation_);
    return lost.empty() ? std::nullopt : std::optional(lost.front().rank);
  }
  // Returns whether this rank can continue with a replacement, so that the launcher may mark a
  // loss.
  bool may_continue() const { return recorder_ != nullptr && recorder_->can_continue(); }

 private:
  const FlightRecorder* recorder_ = nullptr;
  int generation_ = 0;
  bool several_nodes_ = false;
};

}  // namespace ddprun::trainer
