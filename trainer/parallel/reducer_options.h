// What a reducer works on and how; see reducer.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/flight_recorder.h"
#include "trainer/config/strategy_config.h"
#include "trainer/parallel/bucket_plan.h"
#include "trainer/parallel/comm_hook.h"

namespace ddprun::trainer {

struct ReducerOptions {
  // What goes on while buckets are all-reduced.
  //   kBackward  backward: a bucket is sent when it is full; backward returns when all are there
  //   kStep      the update: all are sent when backward ends; see Reducer::WaitForBuckets
  //   kBoth      sent as with kBackward, waited for as with kStep
  //   kNone      nothing: sent and waited for when backward ends
  using Overlap = trainer::Overlap;

  BucketLimits limits = {};
  // Find the limits in the first steps: after the first one, those of TuningCandidates() are tried,
  // six steps each, and the fastest stays. What gradients are does not depend on them.
  bool tune_limits = false;
  // The order of gradients in the buckets stays the first guess. Where sums follow from it, a run
  // that goes on has the same ones.
  bool keep_order = false;
  Overlap overlap = Overlap::kBackward;
  // Some parameters may get no gradient in a backward, others in another, and not the same on
  // every rank. Their part of the average is zero; one that no rank used keeps its gradient as it
  // is. Costs one small collective a step.
  bool find_unused_parameters = false;
  // Every backward uses the same parameters equally often as the first; a parameter may get its
  // gradient in several pieces (checkpointing) or never. Unused ones cost nothing.
  bool static_graph = false;
  // Called within backward, on its thread and without recording a graph, with the parameters of one
  // bucket after the other: as soon as their gradients are averaged, while backward goes on. Where
  // parameters may be unused, or with a comm_hook, when backward has ended, bucket by bucket. A
  // parameter is updated once nothing in this backward needs its old value to compute a gradient
  // of its own; who uses its value past autograd as well (detach()) gets autograd's error "modified
  // by an inplace operation". Not together with overlap kStep or kBoth. Must not call the reducer.
  using Ready = std::function<void(std::span<const at::Tensor> parameters)>;
  Ready update_in_backward = {};
  std::shared_ptr<CommHook> comm_hook = {};  // none: the plain average
  // Look at every gradient and throw at the first one that is not finite. Costs a pass over it.
  bool check_finite = false;
  FlightRecorder* recorder = nullptr;  // is told which bucket is sent; outlives the reducer

  bool SendsInBackward() const {
    return overlap == Overlap::kBackward || overlap == Overlap::kBoth;
  }
  bool WaitsInStep() const { return overlap == Overlap::kStep || overlap == Overlap::kBoth; }
};

}  // namespace ddprun::trainer
