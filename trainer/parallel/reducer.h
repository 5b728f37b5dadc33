// Averages gradients over the ranks while backward is still computing others.
//
// Gradients live in buckets: flat tensors allocated by the process group (shared or registered
// memory, so that the collective needs no copy); param.grad() is a view of its bucket. A hook on
// every parameter's gradient counts; the bucket whose gradients are all there is all-reduced in
// the background. Buckets are sent in the same order on all ranks. After the first synchronised
// backward they are laid out anew, once, in the order in which rank 0's gradients really came.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/parallel/bucket_plan.h"

namespace torch::autograd {
struct Node;
}

namespace ddprun::trainer {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;  // a leaf that requires a gradient
};

// Used by the thread that runs the training loop; hooks come on autograd's threads. All ranks
// must have the same parameters in the same order (VerifySameModel).
class Reducer {
 public:
  struct Options {
    BucketLimits limits;
    bool overlap = true;  // false: all-reduce only when backward has ended
  };
  Reducer(std::vector<NamedParameter> parameters,
          c10::intrusive_ptr<c10d::Backend> group,
          const Options& options);
  // Removes the hooks. The parameters' gradients stay valid.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Drops all gradients (as zero_grad does) and lays out the buckets anew, if that is due.
  void BeginStep();
  // Call before every backward. With `synchronize`, gradients are the average over the ranks when
  // backward returns; without, they only add up locally (all micro-batches but the last).
  //
  // backward() throws Failure when a collective fails, or when a parameter got no gradient.
  void PrepareBackward(bool synchronize);

  // The flat gradients, one tensor per bucket, padding free: valid until the next BeginStep().
  std::vector<at::Tensor> FlatGradients() const;
  // Parameter names by bucket, in the order of sending.
  std::vector<std::vector<std::string>> BucketNames() const;
  // How long the last synchronised backward waited for communication.
  double exposed_seconds() const { return exposed_seconds_; }

 private:
  struct Bucket {
    std::vector<size_t> members;
    at::Tensor flat;
    size_t missing = 0;  // gradients that have not come in this backward
    c10::intrusive_ptr<c10d::Work> work;
  };
  struct Slot {
    size_t bucket = 0;
    at::Tensor view;
  };

  void InstallHook(size_t index);
  void OnGradient(size_t index);
  void LaunchReady();
  void Launch(Bucket& bucket, bool in_background);
  void OnBackwardEnd();
  void Layout(const std::vector<size_t>& order);
  std::vector<size_t> OrderOfRankZero();
  [[noreturn]] void ThrowMissingGradients() const;

  const std::vector<NamedParameter> parameters_;
  const c10::intrusive_ptr<c10d::Backend> group_;
  const Options options_;
  std::vector<std::pair<uintptr_t, std::shared_ptr<torch::autograd::Node>>> hooks_;

  std::mutex mutex_;  // guards what follows: hooks of several devices come on several threads
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;            // by parameter
  std::vector<bool> came_;             // by parameter, in this backward
  std::vector<size_t> arrival_order_;  // of the first synchronised backward
  size_t next_to_launch_ = 0;
  bool synchronize_ = true;
  bool end_queued_ = false;
  enum class Rebuild { kRecording, kDue, kDone } rebuild_ = Rebuild::kRecording;
  double exposed_seconds_ = 0;
};

}  // namespace ddprun::trainer
