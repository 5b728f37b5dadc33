// Averages gradients over the ranks while backward is still computing others.
//
// Gradients live in buckets: flat tensors allocated by the process group (shared or registered
// memory, so that the collective needs no copy); param.grad() is a view of its bucket. A hook on
// every parameter's gradient counts; the bucket whose gradients are all there is all-reduced in
// the background. Buckets are sent in the same order on all ranks. After the first synchronised
// backward they are laid out anew, once, in the order in which rank 0's gradients really came.
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
#include "trainer/parallel/bucket_plan.h"
#include "trainer/parallel/gradient_buckets.h"
#include "trainer/parallel/gradient_hooks.h"
#include "trainer/parallel/gradient_readiness.h"
#include "trainer/parallel/mesh.h"
#include "trainer/parallel/reducer_options.h"

namespace ddprun::trainer {

// Used by the thread that runs the training loop; hooks come on autograd's threads. All ranks
// must have the same parameters in the same order (VerifySameModel), dense and on one device.
class Reducer {
 public:
  using Options = ReducerOptions;
  using Overlap = ReducerOptions::Overlap;

  // Throws Failure for parameters that it cannot reduce. REQUIRES: a mesh with groups.
  Reducer(std::vector<NamedParameter> parameters, const Mesh& mesh, const Options& options);
  // Removes the hooks. The parameters' gradients stay valid.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Lays out the buckets anew, if that is due: a collective then. Between two steps. With
  // Options::tune_limits it is due every few steps until the sizes are found.
  void RebuildIfDue();
  // Where ranks were replaced: begins anew with the gradients, laid out as `giver`'s. A collective.
  void Rejoin(int giver);
  // RebuildIfDue, and drops all gradients (as zero_grad does).
  void BeginStep();
  // This rank's own, zero where none came, in the buckets; the next backward begins anew.
  std::vector<at::Tensor> TakeLocalGradients();
  // Call before every backward. With `synchronize`, gradients are the average over the ranks when
  // backward returns (Overlap kStep, kBoth: once WaitForBuckets has come to them); without, they
  // only add up locally (all micro-batches but the last).
  // `outputs`: what the loss is made of, if known; with find_unused_parameters the unused ones are
  // then known before backward, and their buckets do not wait for its end.
  //
  // Throws Failure when a parameter has got another type or size. backward() does when a collective
  // fails, when a parameter got no gradient, and that was not to be expected, and when it is a
  // second one, whose gradients would not be averaged.
  void PrepareBackward(bool synchronize, std::span<const at::Tensor> outputs = {});

  // Returns when all gradients are averaged: at once, unless they are waited for in the update
  // (Overlap kStep, kBoth). Calls `ready` with the parameters of one bucket after the other, in
  // the order of sending; those of later buckets are still being averaged then. Throws Failure when
  // a collective fails; the buckets before it have been given to `ready`.
  // Nothing is called where parameters are updated in backward.
  using Ready = ReducerOptions::Ready;
  void WaitForBuckets(const Ready& ready = {});

  // Takes part in the collectives of one synchronised backward of the other ranks, without
  // gradients of its own: for a rank that has run out of data.
  void ShadowBackward();

  // The flat gradients, one tensor per bucket: valid until the next rebuild.
  std::vector<at::Tensor> FlatGradients() const;
  // The same by parameter, in their order and shapes; zero where none came.
  const std::vector<at::Tensor>& Gradients() const { return buckets_.views(); }
  // What the hook keeps from step to step; buckets are laid out anew.
  void NameState(StateVisitor& visitor) const;
  std::vector<std::vector<std::string>> BucketNames() const;  // in the order of sending
  // How long the last synchronised backward, and WaitForBuckets after it, waited for communication.
  double exposed_seconds() const { return exposed_seconds_; }
  // With Options::tune_limits, once sizes are found; else nullptr. The same on all ranks.
  const BucketTuning* tuning() const { return tuning_.steps > 0 && !tuner_ ? &tuning_ : nullptr; }

 private:
  using Bucket = GradientBuckets::Bucket;
  enum class Rebuild { kRecording, kDue, kDone };
  // A bucket on its way: one of the two, or neither where the current stream has it in its order.
  struct Flight {
    c10::intrusive_ptr<c10d::Work> work = {};
    std::function<void()> finish = {};
  };

  void CheckOptions() const;
  void Layout(const BucketLimits& limits);
  std::vector<size_t> OrderOf(int rank, const std::vector<size_t>& own);
  void StartTuning();
  void Tune();
  void DropGradients();

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
  void CallHook(const Bucket& bucket, const std::function<void()>& call) const;
  std::string Where() const;
  [[noreturn]] void ThrowMissingGradients() const;
  [[noreturn]] void ThrowBadGradient(size_t index, const char* what, const char* hint = "") const;

  const Mesh mesh_;
  const Options options_;
  const HostProcessGroup* const host_;  // of the mesh's data axis, if its ranks may be replaced
  GradientHooks hooks_;

  std::mutex mutex_;  // guards what follows: hooks of several devices come on several threads
  GradientBuckets buckets_;
  GradientReadiness readiness_;
  std::vector<Flight> flights_;        // by bucket
  std::vector<size_t> arrival_order_;  // of the first synchronised backward
  std::vector<size_t> order_;          // that the buckets are laid out in
  int64_t steps_ = 0;                  // synchronised backwards begun
  size_t next_to_launch_ = 0;
  size_t next_to_settle_ = 0;
  bool synchronize_ = true;
  bool expected_ = false;  // gradients: from PrepareBackward to the end of a synchronised backward
  bool end_queued_ = false;
  bool in_flight_ = false;         // backward has ended, its buckets have not been waited for
  std::vector<bool> used_by_any_;  // by parameter; where some may be unused
  Rebuild rebuild_ = Rebuild::kRecording;
  double exposed_seconds_ = 0;
  std::optional<BucketTuner> tuner_;  // while sizes are being tried
  BucketTuning tuning_;
  std::chrono::steady_clock::time_point prepared_at_;
  std::optional<double> step_seconds_;  // from then to the averages; taken by Tune()
};

}  // namespace ddprun::trainer
