#include "launcher/agent/template_client.h"

#include <gmock/gmock.h>

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(EnvironmentChange, HoldsOnlyWhatDiffers) {
  const Environment from(Environment::Variables{{"SAME", "1"}, {"OTHER", "1"}, {"GONE", "1"}});
  const Environment to(Environment::Variables{{"SAME", "1"}, {"OTHER", "2"}, {"NEW", "a=b"}});
  const EnvironmentChange change = ChangeOf(from, to);
  EXPECT_THAT(change.set, ElementsAre(Pair("NEW", "a=b"), Pair("OTHER", "2")));
  EXPECT_THAT(change.unset, ElementsAre("GONE"));
}

TEST(EnvironmentChange, IsNothingBetweenEquals) {
  const Environment env(Environment::Variables{{"A", "1"}});
  EXPECT_THAT(ChangeOf(env, env).set, IsEmpty());
  EXPECT_THAT(ChangeOf(env, env).unset, IsEmpty());
}

}  // namespace
}  // namespace ddprun::launcher
