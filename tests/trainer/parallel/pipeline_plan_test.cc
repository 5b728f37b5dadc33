#include "trainer/parallel/pipeline_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
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

// What a stage does in order, and the messages that it queues for each communicator.
struct StageQueues {
  struct Message {
    Way way;
    int micro_batch;
    bool sends;
  };
  size_t next = 0;                                                  // action
  bool received = false;                                            // what the next action needs
  std::map<std::pair<int, bool>, std::deque<Message>> queued = {};  // by communicator
};

// Returns how many actions end if messages are those between devices: a communicator runs what its
// two ranks queue in the order of each of them, and a send ends when it is received. The host is as
// slow as it can be: it queues nothing before the action before has ended.
int ActionsThatEnd(const std::vector<PipelineActions>& actions, bool one_communicator) {
  const auto stages = static_cast<int>(actions.size());
  std::vector<StageQueues> all(actions.size());
  // The communicator of the stages `before` and `before + 1` for messages of this way.
  const auto key = [&](int before, Way way) {
    return std::pair(before, one_communicator || way == Way::kForward);
  };
  const auto border = [](int stage, Way way, bool sends) {
    return (way == Way::kForward) == sends ? stage : stage - 1;
  };
  const auto queue = [&](int stage, const PipelineAction& action, bool sends) {
    const int before = border(stage, action.kind, sends);
    if (before < 0 || before + 1 >= stages) return false;
    all[static_cast<size_t>(stage)].queued[key(before, action.kind)].push_back(
        {action.kind, action.micro_batch, sends});
    return true;
  };
  const auto begin = [&](int stage) {
    const auto at = static_cast<size_t>(stage);
    if (all[at].next == actions[at].size()) return;
    all[at].received = !queue(stage, actions[at][all[at].next], /*sends=*/false);
  };
  for (int stage = 0; stage < stages; ++stage) begin(stage);
  int ended = 0;
  for (bool moves = true; moves;) {
    moves = false;
    for (int stage = 0; stage < stages; ++stage) {
      const auto at = static_cast<size_t>(stage);
      if (all[at].next < actions[at].size() && all[at].received) {
        queue(stage, actions[at][all[at].next++], /*sends=*/true);
        ++ended;
        begin(stage);
        moves = true;
      }
      if (stage + 1 == stages) continue;
      for (const Way way : {Way::kForward, Way::kBackward}) {
        auto &own = all[at].queued[key(stage, way)], &other = all[at + 1].queued[key(stage, way)];
        if (own.empty() || other.empty() || own.front().sends == other.front().sends) continue;
        EXPECT_EQ(own.front().way, other.front().way);
        EXPECT_EQ(own.front().micro_batch, other.front().micro_batch);
        all[own.front().sends ? at + 1 : at].received = true;
        own.pop_front();
        other.pop_front();
        moves = true;
      }
    }
  }
  return ended;
}

TEST_P(ScheduleTest, NoMessageBetweenDevicesWaitsForEver) {
  for (int stages = 2; stages <= 6; ++stages) {
    for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      const auto actions = ActionsOf(GetParam(), stages, micro_batches);
      EXPECT_EQ(ActionsThatEnd(actions, /*one_communicator=*/false), 2 * stages * micro_batches);
    }
  }
}

TEST(PipelineScheduleTest, NeighboursThatSendFirstNeedTwoCommunicators) {
  const auto actions = ActionsOf(&OneForwardOneBackwardActions, 2, 4);
  EXPECT_EQ(ActionsThatEnd(actions, /*one_communicator=*/true), 4);
  EXPECT_EQ(ActionsThatEnd(actions, /*one_communicator=*/false), 16);
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
