// Who computes what in a pipeline, and when. Pure.
//
// The stages of a pipeline follow each other: each one has some of the model's parts, takes what
// the one before gives for a micro-batch, and on the way back gives it the gradient of that.
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

// What a stage does, in order. A forward begins with what the stage before sends (but on the first
// one) and ends with sending on (but on the last one); a backward the other way round. Sends do not
// wait for who receives. Every stage goes through the micro-batches in their order, forward and
// backward, so that messages need no numbers and gradients are added up as by one process.
using PipelineActions = std::vector<PipelineAction>;

// SEAM: a schedule is such a function.
using ScheduleActions = PipelineActions (*)(int stage, int stages, int micro_batches);

// GPipe: all forwards, then all backwards. Keeps the activations of all micro-batches.
PipelineActions GpipeActions(int stage, int stages, int micro_batches);
// 1F1B: a backward as soon as there is one. Stage s keeps those of at most stages - s.
PipelineActions OneForwardOneBackwardActions(int stage, int stages, int micro_batches);
// One micro-batch after the other, forward and back: one stage works at a time.
PipelineActions OneByOneActions(int stage, int stages, int micro_batches);

// An action of one of the stages, as it falls on a clock.
struct PipelineEvent {
  int stage = 0;
  PipelineAction action = {};
  double begin = 0;
  double end = 0;
};

// By `begin`, then by stage, when each stage needs so long for a forward and a backward and
// messages need no time. Fewer events than actions: the rest waits for ever.
std::vector<PipelineEvent> SimulatePipeline(const std::vector<PipelineActions>& actions,
                                            double forward_seconds = 1,
                                            double backward_seconds = 2);

// How many of the parts each stage gets so that the most expensive stage is as cheap as can be; of
// several such ways, the one whose first stages have least. REQUIRES: 0 < stages <= costs.size().
std::vector<int64_t> BalancedSplit(std::span<const double> costs, int stages);

}  // namespace ddprun::trainer
