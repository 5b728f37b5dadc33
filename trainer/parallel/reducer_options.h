// What a reducer works on and how; see reducer.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "base/flight_recorder.h"
#include "trainer/parallel/bucket_plan.h"
#include "trainer/parallel/comm_hook.h"

namespace ddprun::trainer {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;  // a leaf that requires a gradient
};

struct ReducerOptions {
  // What goes on while buckets are all-reduced.
  enum class Overlap {
    kBackward,  // backward: a bucket is sent when it is full; backward returns when all are there
    kStep,      // the update: all are sent when backward ends; see Reducer::WaitForBuckets
    kBoth,      // sent as with kBackward, waited for as with kStep
    kNone,      // nothing: sent and waited for when backward ends
  };

  BucketLimits limits = {};
  Overlap overlap = Overlap::kBackward;
  // Some parameters may get no gradient in a backward, others in another, and not the same on
  // every rank. Their part of the average is zero; one that no rank used keeps its gradient as it
  // is. Costs one small collective a step.
  bool find_unused_parameters = false;
  // Every backward uses the same parameters equally often as the first; a parameter may get its
  // gradient in several pieces (checkpointing) or never. Unused ones cost nothing.
  bool static_graph = false;
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
