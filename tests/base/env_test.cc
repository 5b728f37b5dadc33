#include "base/env.h"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Environment, GivesItsEntriesSortedByName) {
  Environment env;
  env.Set("B", "2=3");
  env.Set("A", "1");
  env.Set("C", "");
  env.Unset("C");
  EXPECT_THAT(env.Entries(), ElementsAre("A=1", "B=2=3"));
}

TEST(Environment, TellsUnsetFromEmpty) {
  const Environment env(Environment::Variables{{"EMPTY", ""}});
  EXPECT_EQ(env.Get("EMPTY"), "");
  EXPECT_EQ(env.Get("ABSENT"), std::nullopt);
  EXPECT_EQ(env.GetOr("EMPTY", "fallback"), "");
  EXPECT_EQ(env.GetOr("ABSENT", "fallback"), "fallback");
}

TEST(Environment, ReadsIntegersWithinTheirRange) {
  const Environment env(Environment::Variables{{"N", "5"}, {"EMPTY", ""}});
  EXPECT_EQ(*env.GetInt("N", 1, 0, 5), 5);
  EXPECT_EQ(*env.GetInt("EMPTY", 1, 0, 5), 1);
  EXPECT_EQ(*env.GetInt("ABSENT", 1, 0, 5), 1);
}

TEST(Environment, NamesTheVariableItsValueAndTheRangeInAnError) {
  const Environment env(Environment::Variables{{"N", "6x"}});
  const auto result = env.GetInt("N", 1, 0, 5);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kUsage);
  EXPECT_THAT(result.error().what, HasSubstr("N is \"6x\"; expected an integer from 0 to 5"));
  EXPECT_FALSE(Environment(Environment::Variables{{"N", "6"}}).GetInt("N", 1, 0, 5).has_value());
}

TEST(ParseInt, TakesWholeTextsOnly) {
  EXPECT_EQ(ParseInt("-12"), -12);
  for (const char* text : {"", " 1", "1 ", "1.0", "0x10", "+1", "99999999999999999999"}) {
    EXPECT_EQ(ParseInt(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ddprun
