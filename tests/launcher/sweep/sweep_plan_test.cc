#include "launcher/sweep/sweep_plan.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

namespace ddprun::launcher {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

std::vector<std::string> Names(const std::vector<std::string>& texts) {
  const auto runs = PlanSweep(texts);
  EXPECT_TRUE(runs.has_value()) << Render(runs.error());
  std::vector<std::string> names;
  if (!runs) return names;
  for (const SweepRun& run : *runs) names.push_back(run.name);
  return names;
}

TEST(SweepPlan, MakesAllCombinationsTheLastKeyFastest) {
  EXPECT_THAT(Names({"optimizer.lr=1,2", "run.seed=7,8"}),
              ElementsAre("lr=1,seed=7", "lr=1,seed=8", "lr=2,seed=7", "lr=2,seed=8"));
  EXPECT_THAT((*PlanSweep({"a.b=x", "c.d=1,2"}))[1].Overrides(), ElementsAre("a.b=x", "c.d=2"));
}

TEST(SweepPlan, KeepsListsAndTextsWithCommasWhole) {
  const auto runs = PlanSweep({R"(a.b=[1,2],[3, [4,5]],"x,y",{"k":1})"});
  ASSERT_EQ(runs->size(), 4u);
  EXPECT_EQ((*runs)[1].values[0].second, "[3, [4,5]]");
  EXPECT_EQ((*runs)[2].values[0].second, R"("x,y")");
}

TEST(SweepPlan, NamesRunsForAFileSystemAndApart) {
  EXPECT_THAT(Names({"a.b=/x y,[x]"}), ElementsAre("b=_xy", "b=x"));
  EXPECT_THAT(Names({"a.b=[1],1"}), ElementsAre("b=1", "b=1.2"));
  EXPECT_THAT(Names({"a.b=1", "c.b=2"}), ElementsAre("a.b=1,c.b=2"));
}

TEST(SweepPlan, RefusesEmptyValuesRepeatedKeysAndTooManyRuns) {
  EXPECT_THAT(PlanSweep({"a.b=1,,2"}).error().what, HasSubstr("empty value"));
  EXPECT_THAT(PlanSweep({"a.b=1", "a.b=2"}).error().what, HasSubstr("swept twice"));
  std::vector<std::string> many;
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    many.push_back(std::string(key) + "=1,2,3,4,5,6,7,8,9,10");
  }
  EXPECT_THAT(PlanSweep(many).error().what, HasSubstr("10000"));
}

TEST(SweepPlan, DrawsFromRangesTheSameFirstRunsForASeed) {
  const std::vector<std::string> texts = {"a.rate=loguniform(1e-5,1e-2)", "a.drop=uniform(0,0.5)",
                                          "a.layers=integers(2,4)", "a.kind=x,y"};
  const auto runs = PlanSweep(texts, {.runs = 500, .seed = 7});
  ASSERT_TRUE(runs.has_value()) << Render(runs.error());
  ASSERT_EQ(runs->size(), 500u);
  std::map<std::string, std::map<std::string, int>> counts;
  int small_rates = 0;
  for (const SweepRun& run : *runs) {
    const double rate = std::stod(run.values[0].second);
    EXPECT_THAT(rate, AllOf(Ge(1e-5), Le(1e-2)));
    small_rates += rate < std::sqrt(1e-5 * 1e-2) ? 1 : 0;
    EXPECT_THAT(std::stod(run.values[1].second), AllOf(Ge(0), Le(0.5)));
    for (const size_t at : {2, 3}) ++counts[run.values[at].first][run.values[at].second];
  }
  EXPECT_THAT(small_rates, AllOf(Ge(200), Le(300)));  // half of them, by the logarithm
  for (const char* layers : {"2", "3", "4"}) EXPECT_GT(counts["a.layers"][layers], 120);
  EXPECT_EQ(counts["a.layers"].size(), 3);
  for (const char* kind : {"x", "y"}) EXPECT_GT(counts["a.kind"][kind], 200);
  const auto fewer = PlanSweep(texts, {.runs = 3, .seed = 7});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*fewer)[i].Overrides(), (*runs)[i].Overrides());
  EXPECT_NE(PlanSweep(texts, {.runs = 1, .seed = 8})->front().Overrides(),
            runs->front().Overrides());
}

TEST(SweepPlan, RefusesBadRangesAndRangesWithoutANumberOfRuns) {
  for (const char* range :
       {"uniform(1)", "uniform(2,1)", "uniform(1,2", "loguniform(0,1)", "integers(1,2.5)",
        "uniform(a,b)", "uniform(1,2,3)", "uniform(1,inf)"}) {
    const auto runs = PlanSweep({std::string("a.b=") + range}, {.runs = 2});
    ASSERT_FALSE(runs.has_value()) << range;
    EXPECT_THAT(runs.error().what, AnyOf(HasSubstr("needs"), HasSubstr("empty"))) << range;
  }
  EXPECT_THAT(PlanSweep({"a.b=uniform(1,2)"}).error().what, HasSubstr("--sweep_runs"));
  EXPECT_THAT(PlanSweep({"a.b=1,2"}, {.runs = 5}).error().what, HasSubstr("no range"));
}

}  // namespace
}  // namespace ddprun::launcher
