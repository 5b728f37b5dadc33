// Averages gradients over the ranks while backward is still computing others.
//
// Gradients are in buckets: flat tensors allocated by the process group (shared or registered
// memory, so that the collective needs no copy); param.grad() is a view of its bucket. A hook on
// every parameter counts gradients, and the reducer all-reduces full buckets in the background, in
// one order on all ranks. BucketLayout decides this order.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "trainer/comm/host_process_group.h"
#include "trainer/parallel/bucket_flights.h"
#include "trainer/parallel/bucket_layout.h"
#include "trainer/parallel/gradient_buckets.h"
#include "trainer/parallel/gradient_hooks.h"
#include "trainer/parallel/gradient_readiness.h"
#include "trainer/parallel/reducer_options.h"
#include "trainer/parallel/used_parameters.h"

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

  // Lays out the buckets again if this is due; a collective then. Call it between two steps.
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
  const BucketTuning* tuning() const { return layout_.tuning(); }

 private:
  void MakeBuckets();
  void OnGradient(size_t index);
  void TakeGradient(size_t index);
  void SetUnusedReady(size_t index);
  void LaunchReady();
  void OnBackwardEnd();
  void Finish(const Ready& update);
  void SettleCompleted();
  void Settle(size_t bucket, const Ready& update);
  void FindUsed();
  bool MayBeUnused() const { return options_.find_unused_parameters || options_.static_graph; }
  bool SettlesInBackward() const;
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
  BucketLayout layout_;
  BucketFlights flights_;
  UsedParameters used_;
  int64_t steps_ = 0;  // synchronised backwards begun
  size_t next_to_launch_ = 0;
  size_t next_to_settle_ = 0;
  bool synchronize_ = true;
  bool expected_ = false;  // from PrepareBackward() to the end of a synchronised backward
  bool end_queued_ = false;
  bool in_flight_ = false;  // backward has ended, WaitForBuckets() has not run
  double exposed_seconds_ = 0;
};

}  // namespace ddprun::trainer
