// The options of a Reducer; see reducer.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include <ddprun/comm_hook.h>
#include "base/flight_recorder.h"
#include "trainer/config/strategy_config.h"
#include "trainer/parallel/bucket_plan.h"

namespace ddprun::trainer {

struct ReducerOptions {
  using Overlap = ddprun::Overlap;

  BucketLimits limits = {};
  // Finds the limits in the first steps: after the first one, tries each candidate for six steps,
  // and keeps the fastest (BucketSearch). The values of gradients do not depend on the limits.
  bool tune_limits = false;
  // Buckets keep the first guess of the order of gradients, instead of the order in which gradients
  // came. If sums depend on this order, a resumed run then has the sums of an unbroken one.
  bool keep_order = false;
  Overlap overlap = Overlap::kBackward;
  // Allows parameters without a gradient; they may differ between ranks and backwards. Their part
  // of the average is zero; a parameter that no rank used keeps its gradient. Costs one small
  // collective a step.
  bool find_unused_parameters = false;
  // Every backward uses the parameters of the first one, each equally often. A parameter may get
  // its gradient in several pieces (checkpointing) or never. Unused parameters cost nothing.
  bool static_graph = false;
  // The reducer calls it within backward, on its thread and without recording a graph, with the
  // parameters of each bucket as soon as their gradients are averaged. If parameters may be unused,
  // or with a comm_hook, it calls it when backward has ended. It must not call the reducer, and
  // does not work with overlap kStep or kBoth.
  //
  // The reducer updates a parameter when no gradient in this backward needs its old value. If a
  // model uses the value outside autograd as well (detach()), autograd throws "modified by an
  // inplace operation".
  using Ready = std::function<void(std::span<const at::Tensor> parameters)>;
  Ready update_in_backward = {};
  std::shared_ptr<CommHook> comm_hook = {};  // nullptr: the plain average
  // Checks every gradient and throws at the first one that is not finite. Costs a pass over it.
  bool check_finite = false;
  FlightRecorder* recorder = nullptr;  // records which bucket is sent; outlives the reducer

  bool SendsInBackward() const {
    return overlap == Overlap::kBackward || overlap == Overlap::kBoth;
  }
  bool WaitsInStep() const { return overlap == Overlap::kStep || overlap == Overlap::kBoth; }
};

}  // namespace ddprun::trainer
