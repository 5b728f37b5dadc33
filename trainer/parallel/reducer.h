// Averages gradients over the ranks while backward is still computing others.
//
// Gradients are in buckets: flat tensors allocated by the process group (shared or registered
// memory, so that the collective needs no copy); param.grad() is a view of its bucket. A hook on
// every parameter counts gradients, and the reducer all-reduces full buckets in the background, in
// one order on all ranks. After the first synchronised backward it lays out the buckets once more,
// in the order in which rank 0's gradients came.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/comm/host_process_group.h"
#include "trainer/parallel/bucket_search.h"
#include "trainer/parallel/gradient_buckets.h"
#include "trainer/parallel/gradient_hooks.h"
#include "trainer/parallel/gradient_readiness.h"
#include "trainer/parallel/mesh.h"
#include "trainer/parallel/reducer_options.h"

namespace ddprun::trainer {

// Only the thread of the training loop calls it; hooks run on autograd's threads. All ranks must
// have the same parameters in the same order (VerifySameModel), dense and on one device.
class Reducer {
 public:
  using Options = ReducerOptions;
  using Overlap = ReducerOptions::Overlap;

  // Throws Failure for parameters that it cannot reduce. REQUIRES: a mesh with groups.
  Reducer(std::vector<NamedParameter> parameters, const Mesh& mesh, const Options& options);
  // Removes the hooks. The parameters' gradients stay valid.
  ~Reducer() = default;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Lays out the buckets again if this is due; a collective then. Call it between two steps. With
  // Options::tune_limits it is due every few steps until the sizes are found.
  void RebuildIfDue();
  // After ranks were replaced, drops gradients and takes the layout of rank `giver`. A collective.
  void Rejoin(int giver);
  // Drops all gradients (as zero_grad does) and calls RebuildIfDue().
  void BeginStep();
  // Returns and drops this rank's flat gradients, zero where none came.
  std::vector<at::Tensor> TakeLocalGradients();
  // Call it before every backward. With `synchronize`, gradients are the average over the ranks
  // when backward returns (Overlap kStep, kBoth: after WaitForBuckets()); without it, backward only
  // accumulates them on this rank (all micro-batches but the last). `outputs`, if known, are the
  // tensors of the loss: buckets of unused parameters then do not wait for the end of backward.
  //
  // Throws Failure if a parameter's type or size has changed. backward() throws it if a collective
  // fails, if an expected gradient does not come, and if it is a second backward, whose gradients
  // would not be averaged.
  void PrepareBackward(bool synchronize, std::span<const at::Tensor> outputs = {});

  // Waits until all gradients are averaged, which takes time only with Overlap kStep and kBoth.
  // Calls `ready` with the parameters of one bucket after the other, in the order of sending, while
  // later buckets are still being averaged; not if backward updates parameters. Throws Failure if a
  // collective fails; `ready` has got the buckets before it.
  using Ready = ReducerOptions::Ready;
  void WaitForBuckets(const Ready& ready = {});

  // Takes part in one synchronised backward of the other ranks without gradients of its own,
  // because this rank has run out of data.
  void ShadowBackward();

  // Returns the flat gradients, one tensor per bucket, valid until the next rebuild.
  std::vector<at::Tensor> FlatGradients() const { return buckets_.Flat(); }
  // Returns the gradients by parameter, in their order and shapes; zero where none came.
  const std::vector<at::Tensor>& Gradients() const { return buckets_.views(); }
  // Names the state of the hook. It does not depend on the layout of the buckets.
  void NameState(StateVisitor& visitor) const;
  // Returns the names of the parameters by bucket, in the order of sending.
  std::vector<std::vector<std::string>> BucketNames() const { return buckets_.Names(); }
  // Returns the seconds that the last backward and WaitForBuckets() waited for communication.
  double exposed_seconds() const { return exposed_seconds_; }
  // Returns the found sizes, equal on all ranks; nullptr before, or without Options::tune_limits.
  const BucketTuning* tuning() const { return search_ ? search_->result() : nullptr; }

 private:
  using Bucket = GradientBuckets::Bucket;
  enum class Rebuild { kRecording, kDue, kDone };
  // A running reduction: has one of the two, or none if it is in the current stream's order.
  struct Flight {
    c10::intrusive_ptr<c10d::Work> work = {};
    std::function<void()> finish = {};
  };

  void Layout(const BucketLimits& limits);
  std::vector<size_t> OrderOf(int rank, const std::vector<size_t>& own);
  void EndRebuild();

  void OnGradient(size_t index);
  void TakeGradient(size_t index);
  void SetUnusedReady(size_t index);
  void LaunchReady();
  void Launch(size_t bucket, bool in_background);
  void OnBackwardEnd();
  void Finish(const Ready& update);
  void SettleCompleted();
  void Settle(size_t bucket, const Ready& update);
  void Wait(size_t bucket);
  void EndMeasurement();
  void FindUsed();
  bool MayBeUnused() const { return options_.find_unused_parameters || options_.static_graph; }
  bool SettlesInBackward() const;
  void CallHook(size_t bucket, const std::function<void()>& call) const;
  std::string Where() const;
  [[noreturn]] void ThrowMissingGradients() const;
  [[noreturn]] void ThrowBadGradient(size_t index, const char* what, const char* hint = "") const;

  const Mesh mesh_;
  const Options options_;
  const HostProcessGroup* const host_;  // of the data axis; nullptr: not on the host
  GradientHooks hooks_;

  std::mutex mutex_;  // guards the members below, because each device's hooks have a thread
  GradientBuckets buckets_;
  GradientReadiness readiness_;
  std::vector<Flight> flights_;        // by bucket
  std::vector<size_t> arrival_order_;  // of the first synchronised backward
  std::vector<size_t> order_;          // the parameters' order in the buckets
  int64_t steps_ = 0;                  // synchronised backwards begun
  size_t next_to_launch_ = 0;
  size_t next_to_settle_ = 0;
  bool synchronize_ = true;
  bool expected_ = false;  // from PrepareBackward() to the end of a synchronised backward
  bool end_queued_ = false;
  bool in_flight_ = false;         // backward has ended, WaitForBuckets() has not run
  std::vector<bool> used_by_any_;  // by parameter; if some may be unused
  Rebuild rebuild_ = Rebuild::kRecording;
  double exposed_seconds_ = 0;
  std::optional<BucketSearch> search_;  // once begun
  std::chrono::steady_clock::time_point prepared_at_;
  std::optional<double> step_seconds_;  // from prepared_at_ to the averages; for search_
};

}  // namespace ddprun::trainer
