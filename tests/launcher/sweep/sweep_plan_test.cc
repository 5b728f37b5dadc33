#include "launcher/sweep/sweep_plan.h"

#include <gmock/gmock.h>

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

}  // namespace
}  // namespace ddprun::launcher
