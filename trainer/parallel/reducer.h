// Averages gradients over the ranks while backward is still computing others.
//
// Gradients live in buckets: flat tensors allocated by the process group (shared or registered
// memory, so that the collective needs no copy); param.grad() is a view of its bucket. A hook on
// every parameter's gradient counts; the bucket whose gradients are all there is all-reduced in
// the background. Buckets are sent in the same order on all ranks. After the first synchronised
// backward they are laid out anew, once, in the order in which rank 0's gradients really came.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/parallel/reducer_options.h"

namespace torch::autograd {
struct Node;
}

namespace ddprun::trainer {

// Used by the thread that runs the training loop; hooks come on autograd's threads. All ranks
// must have the same parameters in the same order (VerifySameModel), dense and on one device.
class Reducer {
 public:
  using Options = ReducerOptions;
  using Overlap = ReducerOptions::Overlap;

  // Throws Failure for parameters that it cannot reduce.
  Reducer(std::vector<NamedParameter> parameters,
          c10::intrusive_ptr<c10d::Backend> group,
          const Options& options);
  // Removes the hooks. The parameters' gradients stay valid.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Lays out the buckets anew, if that is due: a collective then. Between two steps.
  void RebuildIfDue();
  // RebuildIfDue, and drops all gradients (as zero_grad does).
  void BeginStep();
  // Call before every backward. With `synchronize`, gradients are the average over the ranks when
  // backward returns (Overlap kStep, kBoth: once WaitForBuckets has come to them); without, they
  // only add up locally (all micro-batches but the last).
  // `outputs`: what the loss is made of, if known; with find_unused_parameters the unused ones are
  // then known before backward, and their buckets do not wait for its end.
  //
  // backward() throws Failure when a collective fails, or when a parameter got no gradient and
  // that was not to be expected.
  void PrepareBackward(bool synchronize, std::span<const at::Tensor> outputs = {});

  // Returns when all gradients are averaged: at once, unless they are waited for in the update
  // (Overlap kStep, kBoth). Calls `ready` with the parameters of one bucket after the other, in
  // the order of sending; those of later buckets are still being averaged then. Throws Failure when
  // a collective fails; the buckets before it have been given to `ready`.
  using Ready = std::function<void(std::span<const at::Tensor> parameters)>;
  void WaitForBuckets(const Ready& ready = {});

  // Takes part in the collectives of one synchronised backward of the other ranks, without
  // gradients of its own: for a rank that has run out of data.
  void ShadowBackward();

  // The flat gradients, one tensor per bucket, padding free: valid until the next rebuild.
  std::vector<at::Tensor> FlatGradients() const;
  // Parameter names by bucket, in the order of sending.
  std::vector<std::vector<std::string>> BucketNames() const;
  // How long the last synchronised backward, and WaitForBuckets after it, waited for communication.
  double exposed_seconds() const { return exposed_seconds_; }

 private:
  struct Bucket {
    std::vector<size_t> members;
    std::vector<at::Tensor> parameters;  // of the members
    GradientBucket gradients;
    size_t missing = 0;  // members that are not ready in this backward
    std::function<void()> finish = {};
  };
  // What is known of one parameter.
  struct Slot {
    size_t bucket = 0;
    at::Tensor view;          // its place in the bucket
    bool ready = false;       // in this backward: nothing more will come
    bool used = false;        // since the last synchronised backward
    int calls = 0;            // gradients that came in this backward
    int expected_calls = -1;  // static_graph, once known
  };
  enum class Rebuild { kRecording, kDue, kDone };

  void CheckParameters() const;
  void InstallHook(size_t index);
  void Layout(const std::vector<size_t>& order);
  std::vector<size_t> OrderOfRankZero();

  void OnGradient(size_t index);
  void TakeGradient(size_t index);
  void SetReady(size_t index);
  void SetUnusedReady(size_t index);
  void LaunchReady();
  void Launch(Bucket& bucket, bool in_background);
  void OnBackwardEnd();
  void Finish();
  void Wait(Bucket& bucket);
  // By parameter: whether any rank has used it.
  std::vector<bool> UsedByAnyRank();
  bool MayBeUnused() const { return options_.find_unused_parameters || options_.static_graph; }
  bool FirstOfStaticGraph() const { return options_.static_graph && !graph_known_; }
  [[noreturn]] void ThrowMissingGradients() const;
  [[noreturn]] void ThrowBadGradient(size_t index, const std::string& what) const;

  const std::vector<NamedParameter> parameters_;
  const c10::intrusive_ptr<c10d::Backend> group_;
  const Options options_;
  std::vector<std::pair<uintptr_t, std::shared_ptr<torch::autograd::Node>>> hooks_;

  std::mutex mutex_;  // guards what follows: hooks of several devices come on several threads
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;            // by parameter
  std::vector<size_t> arrival_order_;  // of the first synchronised backward
  size_t next_to_launch_ = 0;
  bool synchronize_ = true;
  bool end_queued_ = false;
  bool in_flight_ = false;  // backward has ended, its buckets have not been waited for
  bool graph_known_ = false;
  std::vector<bool> used_by_any_;  // static_graph, once known
  Rebuild rebuild_ = Rebuild::kRecording;
  double exposed_seconds_ = 0;
};

}  // namespace ddprun::trainer
