#include "trainer/parallel/pipeline_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

namespace ddprun::trainer {
namespace {

using Way = PipelineAction::Kind;

std::vector<PipelineActions> ActionsOf(ScheduleActions schedule, int stages, int micro_batches) {
  std::vector<PipelineActions> actions;
  for (int stage = 0; stage < stages; ++stage) {
    actions.push_back(schedule(stage, stages, micro_batches));
  }
  return actions;
}

int MostKept(const PipelineActions& actions) {
  int kept = 0;
  int most = 0;
  for (const PipelineAction& action : actions) {
    kept += action.kind == Way::kForward ? 1 : -1;
    most = std::max(most, kept);
  }
  return most;
}

class ScheduleTest : public testing::TestWithParam<ScheduleActions> {};

TEST_P(ScheduleTest, EveryStageGoesThroughAllMicroBatchesInOrder) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      for (const PipelineActions& actions : ActionsOf(GetParam(), stages, micro_batches)) {
        std::map<Way, int> next;
        for (const auto& [kind, micro_batch] : actions) {
          EXPECT_EQ(micro_batch, next[kind]++);
          EXPECT_GE(next[Way::kForward], next[Way::kBackward]) << "backward before its forward";
        }
        EXPECT_EQ(next[Way::kForward], micro_batches);
        EXPECT_EQ(next[Way::kBackward], micro_batches);
      }
    }
  }
}

TEST_P(ScheduleTest, NoStageWaitsForEver) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      const auto events = SimulatePipeline(ActionsOf(GetParam(), stages, micro_batches));
      EXPECT_EQ(events.size(), static_cast<size_t>(2 * stages * micro_batches));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each,
                         ScheduleTest,
                         testing::Values(&GpipeActions,
                                         &OneForwardOneBackwardActions,
                                         &OneByOneActions));

// The share of the time that stages wait: (p - 1) / (m + p - 1), for both.
TEST(PipelineScheduleTest, BubblesAreThoseOfThePapers) {
  for (const ScheduleActions schedule : {&GpipeActions, &OneForwardOneBackwardActions}) {
    for (int p = 1; p <= 6; ++p) {
      for (int m = p; m <= 12; ++m) {
        const auto events = SimulatePipeline(ActionsOf(schedule, p, m), 1, 2);
        const double time = std::ranges::max(events, {}, &PipelineEvent::end).end;
        const double worked = std::transform_reduce(
            events.begin(), events.end(), 0.0, std::plus(),
            [](const PipelineEvent& event) { return event.end - event.begin; });
        EXPECT_NEAR(1 - worked / (time * p), (p - 1.0) / (m + p - 1), 1e-12) << p << " " << m;
      }
    }
  }
}

TEST(PipelineScheduleTest, KeepsWhatThePapersSay) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 12; ++m) {
      EXPECT_EQ(MostKept(GpipeActions(0, p, m)), m);
      EXPECT_EQ(MostKept(OneByOneActions(0, p, m)), 1);
      for (int stage = 0; stage < p; ++stage) {
        EXPECT_EQ(MostKept(OneForwardOneBackwardActions(stage, p, m)), std::min(p - stage, m));
      }
    }
  }
}

TEST(PipelineScheduleTest, SimulationStopsWhereAScheduleDoes) {
  // The first stage wants a gradient before it has sent what that needs.
  const PipelineActions first = {{Way::kForward, 0}, {Way::kBackward, 1}, {Way::kForward, 1}};
  const auto events = SimulatePipeline({first, GpipeActions(1, 2, 2)});
  EXPECT_EQ(events.size(), 2U);
}

TEST(BalancedSplitTest, TheMostExpensiveStageIsAsCheapAsCanBe) {
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(BalancedSplit(std::vector<double>{1, 1, 1, 1}, 2), (Counts{2, 2}));
  EXPECT_EQ(BalancedSplit(std::vector<double>{0, 1, 1, 1, 3}, 2), (Counts{4, 1}));
  EXPECT_EQ(BalancedSplit(std::vector<double>{5, 1, 1}, 3), (Counts{1, 1, 1}));
  EXPECT_EQ(BalancedSplit(std::vector<double>{0, 0, 0}, 2), (Counts{1, 2}));
  EXPECT_EQ(BalancedSplit(std::vector<double>{7}, 1), (Counts{1}));
  // Against all ways to share out seven parts.
  const std::vector<double> costs = {3, 1, 4, 1, 5, 9, 2};
  const auto cost_of = [&](const Counts& counts) {
    double worst = 0;
    auto next = costs.begin();
    for (const int64_t count : counts) {
      worst = std::max(worst, std::accumulate(next, next + count, 0.0));
      next += count;
    }
    return worst;
  };
  double best = 1e9;
  for (int64_t i = 1; i < 7; ++i) {
    for (int64_t j = i + 1; j < 7; ++j) best = std::min(best, cost_of({i, j - i, 7 - j}));
  }
  EXPECT_EQ(cost_of(BalancedSplit(costs, 3)), best);
}

}  // namespace
}  // namespace ddprun::trainer
