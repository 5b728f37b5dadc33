// loop.rate_search compares whole runs with pandas and numpy.
#include "trainer/report/rate_search.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/trainer/report/noted_lines.h"
#include "trainer/report/rate_chart.h"

namespace ddprun::trainer {
namespace {

using testing::HasSubstr;

// The loss stays at 2, falls around `middle`, and grows with high rates.
std::vector<TriedRate> Search(double middle, double last, size_t steps = 200) {
  std::vector<TriedRate> tried;
  for (size_t i = 0; i < steps; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(steps - 1);
    const double rate = 1e-6 * std::pow(last / 1e-6, share);
    const double fall = 1 / (1 + std::exp(-3 * std::log(rate / middle)));
    tried.push_back({rate, 2 - fall + std::pow(rate, 4)});
  }
  return tried;
}

std::string TextOf(const std::vector<TriedRate>& tried, const char* reason = "finished") {
  NotedLines lines;
  RateSearch search(lines);
  for (const TriedRate& one : tried) {
    search.OnStep({.loss = one.loss, .learning_rate = one.learning_rate}, {});
  }
  search.OnEnd({.reason = reason}, {});
  EXPECT_LE(lines.lines.size(), 1U);
  return lines.lines.empty() ? "" : lines.lines[0];
}

TEST(FindRate, FindsWhereTheLossFalls) {
  const std::vector<TriedRate> tried = Search(1e-3, 1);
  const std::optional<FoundRate> found = FindRate(tried);
  ASSERT_TRUE(found);
  EXPECT_GT(tried[found->fastest].learning_rate, 9e-4);
  EXPECT_LT(tried[found->fastest].learning_rate, 1.1e-3);
  EXPECT_GT(found->least, found->fastest);
  EXPECT_EQ(found->last_good, tried.size() - 1);
}

TEST(FindRate, DoesNotMindSingleOutliers) {
  std::vector<TriedRate> tried = Search(1e-3, 1);
  const std::optional<FoundRate> found = FindRate(tried);
  for (const size_t i : {size_t{50}, found->fastest, size_t{150}}) tried[i].loss = 99;
  const std::optional<FoundRate> again = FindRate(tried);
  ASSERT_TRUE(again);
  EXPECT_NEAR(static_cast<double>(again->fastest), static_cast<double>(found->fastest), 5);
  EXPECT_EQ(again->last_good, found->last_good);
}

TEST(FindRate, LooksAtNothingAfterADivergence) {
  std::vector<TriedRate> tried = Search(1e-3, 100);
  const std::optional<FoundRate> found = FindRate(tried);
  ASSERT_TRUE(found);
  EXPECT_LT(found->last_good, tried.size() - 1);
  // A fall after it, and numbers that are none, change nothing.
  for (size_t i = found->last_good + 1; i < tried.size(); ++i) tried[i].loss = NAN;
  const std::optional<FoundRate> again = FindRate(tried);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->fastest, found->fastest);
  EXPECT_EQ(again->least, found->least);
}

TEST(FindRate, FindsNothingInFewStepsOrALossThatOnlyGrows) {
  EXPECT_FALSE(FindRate({}));
  EXPECT_FALSE(FindRate(Search(1e-3, 1, 9)));
  std::vector<TriedRate> grows;
  for (int i = 1; i < 100; ++i) grows.push_back({1e-3 * i, 1.0 + i});
  EXPECT_FALSE(FindRate(grows));
  EXPECT_FALSE(FindRate(std::vector<TriedRate>(50, {1e-3, NAN})));
}

TEST(RateSearch, SaysWhichRateToTake) {
  EXPECT_THAT(TextOf(Search(1e-3, 1)), HasSubstr("and never diverges; to train: --set optim"));
  EXPECT_THAT(TextOf(Search(1e-3, 100)), HasSubstr(", and diverges above "));
  EXPECT_EQ(TextOf({{1, 2}}),
            "learning rate: none found. The loss of 1 step never falls while the learning rate "
            "rises; try more steps (run.max_steps) or other ends (scheduler.range_test).");
  EXPECT_EQ(TextOf({{1, 2}}, "failed"), "");
}

TEST(RateChart, IsOfASearchAlone) {
  RunHistory run;
  for (const TriedRate& one : Search(1e-3, 100)) {
    const auto step = static_cast<double>(PointsOf(run.training, "loss").size() + 1);
    PointsOf(run.training, "loss").push_back({step, one.loss});
    PointsOf(run.training, "learning rate").push_back({step, one.learning_rate});
  }
  EXPECT_EQ(RateChart(run), "");
  run.config["scheduler.range_test"] = "[]";
  EXPECT_EQ(RateChart(run), "");
  run.config["scheduler.range_test"] = "[1e-06,100.0]";
  EXPECT_THAT(RateChart(run), HasSubstr("falls fastest at "));
  run.training.clear();
  EXPECT_EQ(RateChart(run), "");
}

}  // namespace
}  // namespace ddprun::trainer
