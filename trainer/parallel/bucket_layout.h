// Decides the order of parameters in the buckets, and the buckets' sizes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <ddprun/mesh.h>
#include "trainer/parallel/bucket_search.h"
#include "trainer/parallel/gradient_buckets.h"
#include "trainer/parallel/reducer_options.h"

namespace ddprun::trainer {

// The first order is the reverse one, because backward runs through the model from its end. After
// the first synchronised backward it is the order in which rank 0's gradients came. Then the sizes
// are searched for, if this is wanted. Equal on all ranks. One thread at a time.
class BucketLayout {
 public:
  BucketLayout(size_t parameters, const ReducerOptions& options, const Mesh& mesh);

  // Return what GradientBuckets::Plan() takes.
  const std::vector<size_t>& order() const { return order_; }
  const BucketLimits& limits() const { return search_ ? search_->limits() : limits_; }

  // A backward begins; without `synchronize` its gradients are not averaged.
  void BeginBackward(bool synchronize);
  // The parameter's first gradient of a synchronised backward has come.
  void NoteGradient(size_t parameter);
  // The gradients of a synchronised backward have come, or are averaged on all ranks.
  void EndBackward();
  void EndAverages();

  // Between two steps: returns whether the buckets are to be laid out again. A collective if it is
  // time for that.
  bool Update(const GradientBuckets& buckets);
  // After ranks were replaced, takes the order of rank `giver`. Returns as Update(). A collective.
  bool Rejoin(int giver, const GradientBuckets& buckets);

  // Returns the found sizes; nullptr before.
  const BucketTuning* tuning() const { return search_ ? search_->result() : nullptr; }

 private:
  enum class State { kRecording, kDue, kDone };

  std::vector<size_t> OrderOf(int rank, const std::vector<size_t>& own) const;
  void Settle(const GradientBuckets& buckets);
  // Waits for the device first, if the time is for the search: what it computes counts.
  std::chrono::steady_clock::time_point Now() const;

  const BucketLimits limits_;
  const bool tunes_;
  const bool keeps_order_;
  const c10::intrusive_ptr<c10d::Backend> control_;  // of all ranks, for host tensors
  const c10::Device device_;
  State state_ = State::kRecording;
  std::vector<size_t> order_;
  std::vector<size_t> arrival_order_;   // of the first synchronised backward
  std::optional<BucketSearch> search_;  // once begun
  std::chrono::steady_clock::time_point begun_at_;
  std::optional<double> seconds_;  // from begun_at_ to the averages; for search_
};

}  // namespace ddprun::trainer
