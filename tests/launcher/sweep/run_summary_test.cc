#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "launcher/sweep/sweep_run.h"
#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

RunSummary Summary(const std::string& text) {
  const TempFolder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  std::ofstream(path) << text;
  return ReadRunSummary(path);
}

TEST(RunSummary, TakesTheLastLossesAndTheTimeBetween) {
  const RunSummary summary = Summary(
      "{\"ts\": 10, \"event\": \"start\"}\n"
      "{\"ts\": 11, \"step\": 1, \"split\": \"train\", \"loss\": 9, \"mean_loss\": 3.5}\n"
      "{\"ts\": 12, \"step\": 4, \"split\": \"train\", \"loss\": 9, \"mean_loss\": 2.5,"
      " \"samples\": 16, \"step_seconds\": 0.5}\n"
      "{\"ts\": 13, \"step\": 4, \"split\": \"validation\", \"loss\": 2.75}\n"
      "{\"ts\": 14.5, \"event\": \"end\", \"step\": 4}\n");
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.loss, 2.5);
  EXPECT_EQ(summary.validation_loss, 2.75);
  EXPECT_EQ(summary.seconds, 4.5);
  EXPECT_EQ(summary.speed, 32);
  EXPECT_EQ(summary.validation.size(), 1u);
  ASSERT_EQ(summary.curve.size(), 2u);
  EXPECT_EQ(summary.curve[1].loss, 2.5);
}

TEST(RunSummary, TakesTheBestValueOfTheMetricThatChoseCheckpoints) {
  const auto best = [](const std::string& metric) {
    return Summary("{\"ts\": 1, \"event\": \"start\", \"save_best\": \"" + metric + "\"}\n" +
                   "{\"step\": 0, \"split\": \"validation\", \"loss\": 0, \"f1\": 1}\n"
                   "{\"step\": 1, \"split\": \"validation\", \"loss\": 2, \"f1\": 0.5}\n"
                   "{\"step\": 2, \"split\": \"validation\", \"loss\": 1, \"f1\": 0.75}\n"
                   "{\"step\": 3, \"split\": \"validation\", \"loss\": 3, \"f1\": \"nan\"}\n")
        .best;
  };
  EXPECT_EQ(best("f1"), 0.75);
  EXPECT_EQ(best("loss"), 1);
  EXPECT_EQ(best("mcc"), std::nullopt);
}

TEST(RunSummary, PassesOverALineThatWasCutShort) {
  const RunSummary summary =
      Summary("{\"ts\": 1, \"step\": 2, \"split\": \"train\", \"mean_loss\": 1}\n{\"ts\": 2, \"st");
  EXPECT_EQ(summary.steps, 2);
  EXPECT_EQ(summary.loss, 1);
}

TEST(RunSummary, KeepsADivergedLossOutOfTheCurve) {
  const RunSummary summary =
      Summary("{\"ts\": 1, \"step\": 2, \"split\": \"train\", \"mean_loss\": \"nan\"}\n");
  ASSERT_TRUE(summary.loss.has_value());
  EXPECT_TRUE(std::isnan(*summary.loss));
  EXPECT_TRUE(summary.curve.empty());
}

TEST(RunSummary, SaysWhetherTheRunWasStopped) {
  const std::string stopped = "{\"event\": \"end\", \"step\": 4, \"reason\": \"stopped\"}\n";
  EXPECT_TRUE(Summary(stopped).stopped);
  EXPECT_FALSE(Summary(stopped + "{\"event\": \"end\", \"reason\": \"finished\"}\n").stopped);
}

TEST(RunSummary, IsEmptyWithoutAFile) {
  EXPECT_FALSE(ReadRunSummary("/nowhere/metrics.jsonl").loss.has_value());
}

}  // namespace
}  // namespace ddprun::launcher
