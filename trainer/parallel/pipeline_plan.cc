#include "trainer/parallel/pipeline_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace ddprun::trainer {

namespace {

using Kind = PipelineAction::Kind;

// Returns `forwards_before` forwards, then backwards and forwards in turn, then the last backwards.
PipelineActions WithWarmup(int forwards_before, int micro_batches) {
  PipelineActions actions;
  for (int i = 0; i < micro_batches + forwards_before; ++i) {
    if (i < micro_batches) actions.push_back({Kind::kForward, i});
    const int back = i - forwards_before + 1;
    if (back >= 0 && back < micro_batches) actions.push_back({Kind::kBackward, back});
  }
  return actions;
}

}  // namespace

PipelineActions GpipeActions(int /*stage*/, int /*stages*/, int micro_batches) {
  return WithWarmup(micro_batches, micro_batches);
}

PipelineActions OneForwardOneBackwardActions(int stage, int stages, int micro_batches) {
  return WithWarmup(std::min(stages - stage, micro_batches), micro_batches);
}

PipelineActions OneByOneActions(int /*stage*/, int /*stages*/, int micro_batches) {
  return WithWarmup(1, micro_batches);
}

std::vector<PipelineEvent> SimulatePipeline(const std::vector<PipelineActions>& actions,
                                            double forward_seconds,
                                            double backward_seconds) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto stages = static_cast<int>(actions.size());
  std::map<std::tuple<Kind, int, int>, double> ends;  // by kind, stage, micro-batch
  const auto end_of = [&](Kind kind, int stage, int micro_batch) {
    const auto found = ends.find({kind, stage, micro_batch});
    return found == ends.end() ? kNever : found->second;
  };
  std::vector<size_t> next(actions.size());
  std::vector<double> free_at(actions.size());
  // Returns when the stage can begin its next action.
  const auto begin_of = [&](int stage) {
    const auto at = static_cast<size_t>(stage);
    if (next[at] == actions[at].size()) return kNever;
    const auto [kind, micro_batch] = actions[at][next[at]];
    double ready = 0;
    if (kind == Kind::kForward) {
      if (stage > 0) ready = end_of(kind, stage - 1, micro_batch);
    } else {
      ready = end_of(Kind::kForward, stage, micro_batch);
      if (stage + 1 < stages) ready = std::max(ready, end_of(kind, stage + 1, micro_batch));
    }
    return std::max(ready, free_at[at]);
  };
  std::vector<PipelineEvent> events;
  for (;;) {
    int first = 0;
    for (int stage = 1; stage < stages; ++stage) {
      if (begin_of(stage) < begin_of(first)) first = stage;
    }
    const double begin = begin_of(first);
    if (begin == kNever) return events;
    const auto at = static_cast<size_t>(first);
    const PipelineAction action = actions[at][next[at]++];
    free_at[at] = begin + (action.kind == Kind::kForward ? forward_seconds : backward_seconds);
    ends[{action.kind, first, action.micro_batch}] = free_at[at];
    events.push_back({first, action, begin, free_at[at]});
  }
}

std::vector<int64_t> BalancedSplit(std::span<const double> costs, int stages) {
  const size_t parts = costs.size();
  const auto wanted = static_cast<size_t>(stages);
  std::vector<double> before(parts + 1);  // the cost of the parts before part i
  for (size_t i = 0; i < parts; ++i) before[i + 1] = before[i] + costs[i];
  // best[s][i]: the cost of the most expensive stage if s stages best divide parts i and later.
  std::vector<std::vector<double>> best(
      wanted + 1, std::vector<double>(parts + 1, std::numeric_limits<double>::infinity()));
  best[0][parts] = 0;
  const auto cost_of = [&](size_t stages_left, size_t begin, size_t end) {
    return std::max(before[end] - before[begin], best[stages_left - 1][end]);
  };
  for (size_t s = 1; s <= wanted; ++s) {
    for (size_t begin = 0; begin < parts; ++begin) {
      for (size_t end = begin + 1; end <= parts; ++end) {
        best[s][begin] = std::min(best[s][begin], cost_of(s, begin, end));
      }
    }
  }
  std::vector<int64_t> counts;
  size_t begin = 0;
  for (size_t s = wanted; s > 0; --s) {
    size_t end = begin + 1;
    while (cost_of(s, begin, end) > best[wanted][0]) ++end;
    counts.push_back(static_cast<int64_t>(end - begin));
    begin = end;
  }
  return counts;
}

}  // namespace ddprun::trainer
