#include "trainer/config/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trainer/config/config_text_fixture.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// The rows of ddprun and one more.
std::vector<Setting> With(const Setting& more) {
  std::vector<Setting> settings(AllSettings().begin(), AllSettings().end());
  settings.push_back(more);
  return settings;
}

// A feature that no other code knows.
Setting Toy() {
  return {.key = "run.seed",
          .makes = {fact::kOwnCode},
          .never = {{{fact::kHookedGradients}, "needs gradients as they are"}}};
}

TEST(Facts, ARowSaysAllThatASettingCannotBear) {
  const Config config = *Read({kGpt, {"run.seed=7", "strategy.comm_hook=bf16"}});
  EXPECT_THAT(ConflictsOf(config), IsEmpty());
  const std::vector<Conflict> conflicts = ConflictsOf(config, With(Toy()));
  ASSERT_THAT(conflicts, SizeIs(1));
  EXPECT_EQ(conflicts[0].maker, "strategy.comm_hook");
  EXPECT_EQ(conflicts[0].refuser, "run.seed");
  EXPECT_EQ(conflicts[0].found,
            "strategy.comm_hook \"bf16\" changes gradients before they are averaged, but run.seed "
            "7 needs gradients as they are:");
  EXPECT_EQ(conflicts[0].hint, "Set strategy.comm_hook to \"none\", or run.seed to 42.");
  EXPECT_EQ(ObstacleTo("run.seed", config, With(Toy())), "strategy.comm_hook \"bf16\"");

  const Config off = *Read({kGpt, {"strategy.comm_hook=bf16"}});
  EXPECT_THAT(ConflictsOf(off, With(Toy())), IsEmpty());
}

TEST(Facts, ARowSaysAllThatOthersCannotBear) {
  const Config config =
      *Read({kGpt, {"run.seed=7", "training.gradient_checkpointing=true", "run.recovery=peer"}});
  const std::vector<Conflict> conflicts = ConflictsOf(config, With(Toy()));
  ASSERT_THAT(conflicts, SizeIs(1));
  EXPECT_EQ(conflicts[0].refuser, "training.gradient_checkpointing");
  EXPECT_EQ(ObstacleTo("training.cuda_graph", config, With(Toy())),
            "training.gradient_checkpointing true");
  EXPECT_EQ(SettingThatMakes({fact::kOwnCode}, config, With(Toy())), "run.seed 7");
  EXPECT_EQ(SettingThatMakes({fact::kOwnCode}, config), "");
}

TEST(Facts, AFeatureThatYieldsRefusesNoConfig) {
  const std::vector<Setting> settings =
      With({.key = "toys", .never = {{{fact::kGradientParts}}}, .yields = true});
  const Config config = *Read({kGpt, {"strategy.type=zero2"}});
  EXPECT_THAT(ConflictsOf(config, settings), IsEmpty());
  EXPECT_EQ(ObstacleTo("toys", config, settings), "strategy.type \"zero2\"");
  EXPECT_EQ(ObstacleTo("toys", *Read({kGpt, {"strategy.type=zero1"}}), settings), "");
}

TEST(Facts, AMessageStandsAtTheKeyThatCannotBearTheOther) {
  const auto place = [](std::vector<std::string> overrides) {
    return Read({kGpt, std::move(overrides)}).error().where;
  };
  EXPECT_EQ(place({"report.state_hashes=true", "strategy.type=tensor_parallel"}),
            "--set report.state_hashes=true");
  EXPECT_EQ(place({"strategy.overlap=step"}), "--set strategy.overlap=step");  // 1 is the default
}

TEST(Facts, OneMessageIsEnoughForTheSameReason) {
  Config config;
  config.strategy.type = StrategyType::kPipeline;
  config.strategy.pipeline_parallel_size = 2;
  config.strategy.comm_hook = CommHookType::kBf16;
  config.report.state_hashes = true;
  std::vector<std::string> keys;
  for (const Conflict& one : ConflictsOf(config)) {
    keys.push_back(std::string(one.maker) + " " + std::string(one.refuser));
  }
  EXPECT_THAT(keys,
              ElementsAre("strategy.comm_hook strategy.type", "strategy.type report.state_hashes"));
}

// Otherwise a row says nothing, or nobody minds.
TEST(Facts, EachFactIsMadeBySomeRowsAndRefusedByOthers) {
  std::vector<Fact> made, refused;
  for (const Setting& setting : AllSettings()) {
    SCOPED_TRACE(setting.key);
    made.insert(made.end(), setting.makes.begin(), setting.makes.end());
    for (const auto& [facts, because] : setting.never) {
      refused.insert(refused.end(), facts.begin(), facts.end());
      EXPECT_EQ(because.empty(), setting.yields);
    }
    EXPECT_FALSE(setting.makes.empty() && setting.never.empty());
    if (setting.yields) continue;
    ASSERT_NE(FindKey(setting.key), nullptr);
    for (const std::string_view word : setting.words) {
      Config config = *Read({kGpt});
      const Slot slot = GetKey(setting.key).slot(config);
      const auto* choice = std::get_if<ChoiceSlot>(&slot);
      if (choice != nullptr) {
        EXPECT_EQ(std::ranges::count(choice->words, word), 1) << word;
      }
    }
  }
  for (const Fact fact : made) EXPECT_GT(std::ranges::count(refused, fact), 0) << fact;
  for (const Fact fact : refused) EXPECT_GT(std::ranges::count(made, fact), 0) << fact;
}

}  // namespace
}  // namespace ddprun::trainer
