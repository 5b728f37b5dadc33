// The ways to average gradients that are measured beside each other.
#pragma once

#include <memory>
#include <vector>

#include "trainer/comm/host_process_group.h"
#include "trainer/parallel/reducer.h"

namespace ddprun::bench {

// One step: BeginStep, forward, Prepare, backward, Update. One thread; the parameters' gradients
// are dropped at its end.
class GradientSync {
 public:
  virtual ~GradientSync() = default;
  virtual void BeginStep() = 0;
  virtual void Prepare() = 0;
  // Calls `update` with all parameters, in one call or more.
  virtual void Update(const trainer::Reducer::Ready& update) = 0;
  // What the last step waited for communication, in seconds; < 0: unknown.
  virtual double waited() const = 0;
  // Tensors that are all-reduced in a step; none where that is unknown.
  virtual std::vector<at::Tensor> Buckets() const { return {}; }
};

// One process without others: gradients are autograd's own tensors.
std::unique_ptr<GradientSync> MakeSingle(std::vector<trainer::NamedParameter> parameters);
// Without `communicate` gradients are put into buckets all the same, but not averaged.
std::unique_ptr<GradientSync> MakeReducer(std::vector<trainer::NamedParameter> parameters,
                                          c10::intrusive_ptr<c10d::Backend> group,
                                          const trainer::ReducerOptions& options,
                                          bool communicate);
// LibTorch's c10d::Reducer over the same process group.
std::unique_ptr<GradientSync> MakeTorchReducer(std::vector<trainer::NamedParameter> parameters,
                                               c10::intrusive_ptr<trainer::HostProcessGroup> group,
                                               const trainer::BucketLimits& limits);

}  // namespace ddprun::bench
