// Plans which stage of a pipeline computes what, and when. Pure.
//
// The stages of a pipeline follow each other, and each one has some of the model's parts. In
// forward, a stage takes the output of the stage before for a micro-batch. In backward, it sends
// the gradient of this input back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::trainer {

struct PipelineAction {
  enum class Kind { kForward, kBackward };
  Kind kind = Kind::kForward;
  int micro_batch = 0;

  bool operator==(const PipelineAction&) const = default;
};

// The actions of a stage, in order. A forward receives from the stage before (except on the first
// one) and ends with a send to the next (except on the last one); a backward works the other way
// round. A send does not wait for its receiver.
//
// Every stage goes through the micro-batches in their order, forward and backward, so that messages
// need no numbers and gradients are added in the order of one process.
using PipelineActions = std::vector<PipelineAction>;

// SEAM: a schedule is a function of this type.
using ScheduleActions = PipelineActions (*)(int stage, int stages, int micro_batches);

// GPipe: all forwards, then all backwards. Keeps the activations of all micro-batches.
PipelineActions GpipeActions(int stage, int stages, int micro_batches);
// 1F1B: backward as soon as possible. Stage s keeps at most stages - s micro-batches.
PipelineActions OneForwardOneBackwardActions(int stage, int stages, int micro_batches);
// Computes one micro-batch after the other, forward and backward: one stage works at a time.
PipelineActions OneByOneActions(int stage, int stages, int micro_batches);

// An action of one stage, with its times.
struct PipelineEvent {
  int stage = 0;
  PipelineAction action = {};
  double begin = 0;
  double end = 0;
};

// Returns the events ordered by `begin`, then by stage, if every forward and backward takes the
// given time and messages take none. Fewer events than actions mean that the rest waits forever.
std::vector<PipelineEvent> SimulatePipeline(const std::vector<PipelineActions>& actions,
                                            double forward_seconds = 1,
                                            double backward_seconds = 2);

// Returns the number of parts of each stage, such that the most expensive stage is as cheap as
// possible and then the first stages have the fewest parts. REQUIRES: 0 < stages <= costs.size().
std::vector<int64_t> BalancedSplit(std::span<const double> costs, int stages);

}  // namespace ddprun::trainer
