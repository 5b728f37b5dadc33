// Values, overrides, defaults that follow from others, and paths.
#include "trainer/config/read_config.h"

#include <gtest/gtest.h>

#include "tests/trainer/config/config_text_fixture.h"
#include "trainer/config/config_text.h"
#include "trainer/config/slot.h"

namespace ddprun::trainer {
namespace {

Config MustRead(const Reading& reading) {
  Result<Config> config = Read(reading);
  EXPECT_TRUE(config.has_value()) << Render(config.error());
  return config.has_value() ? *config : Config();
}

TEST(ReadConfig, TakesCommentsTrailingCommasAndSchemaKeys) {
  const Config config = MustRead({R"(// a run
{
  "$schema": "schema.json", "config_version": 1,
  /* the model */
  "model": { "type": "gpt", "hidden_size": 64, /* , } */ },
  "data": { "train_files": ["a", "b",], "shuffle": false, }, // done
}
)"});
  EXPECT_EQ(config.model.hidden_size, 64);
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.data.train_files.size(), 2U);
}

TEST(ReadConfig, ReadsNumbersExactly) {
  const Config config = MustRead(
      {kGpt, {"run.seed=9007199254740993", "optimizer.learning_rate=0.1", "run.max_steps=1e3"}});
  EXPECT_EQ(config.run.seed, 9007199254740993);  // 2^53 + 1: no double holds it
  EXPECT_EQ(config.optimizer.learning_rate, 0.1);
  EXPECT_EQ(config.run.max_steps, 1000);
}

TEST(ReadConfig, RefusesNumbersThatDoNotFit) {
  for (const char* value : {"1e300", "9223372036854775808", "-1"}) {
    const Result<Config> config = Read({kGpt, {std::string("run.seed=") + value}});
    ASSERT_FALSE(config.has_value()) << value;
    EXPECT_EQ(config.error().page, "out-of-range") << value;
  }
}

TEST(ReadConfig, TheLastOverrideWins) {
  EXPECT_EQ(MustRead({kGpt, {"run.seed=1", "run.seed=2"}}).run.seed, 2);
}

TEST(ReadConfig, SeedsFollowEachOtherUnlessTheyAreGiven) {
  EXPECT_EQ(MustRead({kMlp, {"run.seed=3"}}).data.dataset_seed, 3);
  const Config config = MustRead({kMlp, {"data.data_seed=0", "data.dataset_seed=12345"}});
  EXPECT_EQ(config.data.data_seed, 0);
  EXPECT_EQ(config.data.dataset_seed, 12345);
  EXPECT_EQ(MustRead({kMlp, {"data.data_seed=5"}}).data.dataset_seed, 5);
  // The resolved config that a run keeps is itself a config, also for other data.
  for (const char* text : {kMlp, kGpt}) {
    const std::string resolved = WriteResolvedConfig(MustRead({text, {"run.seed=7"}}));
    EXPECT_EQ(WriteResolvedConfig(MustRead({resolved})), resolved);
  }
  const std::string resolved = WriteResolvedConfig(MustRead({kGpt, {"model.dropout=0.1"}}));
  EXPECT_EQ(WriteResolvedConfig(MustRead({resolved})), resolved);
}

TEST(ReadConfig, AnOverrideReplacesABadValue) {
  const char* text =
      R"({"model": {"type": "gpt"}, "data": {"train_files": "a"}, "run": {"seed": "x"}})";
  EXPECT_EQ(MustRead({text, {"run.seed=2"}}).run.seed, 2);
}

TEST(ReadConfig, AnOverrideOfAStringNeedsNoQuotes) {
  EXPECT_EQ(MustRead({kGpt, {"run.name=first try"}}).run.name, "first try");
  EXPECT_EQ(MustRead({kGpt, {"run.name=42"}}).run.name, "42");
  EXPECT_EQ(MustRead({kGpt, {R"(run.name="42")"}}).run.name, "42");
  EXPECT_EQ(MustRead({kGpt, {"run.name="}}).run.name, "");
  EXPECT_EQ(MustRead({kGpt, {"evaluation.sample_prompt=a=b"}}).evaluation.sample_prompt, "a=b");
}

TEST(ReadConfig, InputPathsOfTheFileStartAtItsFolder) {
  const Config config = MustRead({R"({"model": {"type": "gpt", "name_or_path": "../m"},
    "data": {"train_files": ["*.txt", "/abs/b.txt"]}})"});
  EXPECT_EQ(config.data.train_files, (std::vector<std::string>{"/configs/*.txt", "/abs/b.txt"}));
  EXPECT_EQ(config.model.name_or_path, "/m");
}

TEST(ReadConfig, InputPathsOfAnOverrideStartAtTheWorkingDirectory) {
  const Config config = MustRead({kGpt, {"data.train_files=c.txt"}});
  EXPECT_EQ(config.data.train_files, std::vector<std::string>{"/work/c.txt"});
}

TEST(ReadConfig, ReplacesEnvironmentVariables) {
  Environment environment;
  environment.Set("WHO", "world");
  const auto prompt = [&](const std::string& text) {
    return MustRead({kGpt, {"evaluation.sample_prompt=" + text}, environment})
        .evaluation.sample_prompt;
  };
  EXPECT_EQ(prompt("hello ${WHO}, ${WHO}!"), "hello world, world!");
  EXPECT_EQ(prompt("$${WHO} $WHO ${WHO}"), "${WHO} $WHO world");
}

TEST(ReadConfig, FillsDefaultsThatFollowFromOtherKeys) {
  const Config config = MustRead(
      {kGpt, {"run.seed=7", "model.hidden_size=64", "training.per_device_train_batch_size=3"}});
  EXPECT_EQ(config.data.data_seed, 7);
  EXPECT_EQ(config.model.intermediate_size, 256);
  EXPECT_EQ(config.training.per_device_eval_batch_size, 3);
  EXPECT_EQ(config.optimizer.weight_decay, 0.1);
}

TEST(ReadConfig, OnlyAdamWDecaysWeightsUnasked) {
  EXPECT_EQ(MustRead({kMlp, {"optimizer.type=sgd"}}).optimizer.weight_decay, 0.0);
  EXPECT_EQ(MustRead({kMlp, {"optimizer.type=adam"}}).optimizer.weight_decay, 0.0);
  EXPECT_EQ(
      MustRead({kMlp, {"optimizer.type=sgd", "optimizer.weight_decay=0.1"}}).optimizer.weight_decay,
      0.1);
}

TEST(ReadConfig, NullStandsForADefaultThatFollowsFromOthers) {
  const Config config = MustRead({kGpt, {"run.seed=7", "data.data_seed=null", "run.name=null"}});
  EXPECT_EQ(config.data.data_seed, 7);
  EXPECT_EQ(config.run.name, "");
  const Result<Config> refused = Read({kGpt, {"run.seed=null"}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().page, "wrong-type");
}

TEST(ReadConfig, RefusesAnotherConfigVersion) {
  EXPECT_EQ(ComplaintBody({R"({"config_version": 2, "model": {"type": "gpt"}})"}), R"(
This ddp-trainer reads config_version 1 only:
1| {"config_version": 2, "model": {"type": "gpt"}}
                      ^
Remove the key, or use the ddp-trainer the file is for.
)");
}

TEST(ReadConfig, RefusesWhatIsNoObject) {
  EXPECT_EQ(ComplaintBody({"[1]"}), R"(
A config is an object, this is a list:
1| [1]
   ^^^
Begin with { "model": { "type": "gpt" }, ... }.
)");
  EXPECT_EQ(ComplaintBody({R"({"model": "gpt"})"}), R"(
The section "model" is a string here:
1| {"model": "gpt"}
             ^^^^^
Accepted: an object, { ... }.
Write { "type": "gpt" }.
)");
}

Interval SaveSteps(const std::string& value) {
  const Result<Config> config = Read({kGpt, {"checkpoint.save_steps=" + value}});
  EXPECT_TRUE(config.has_value()) << Render(config.error());
  return config.has_value() ? config->checkpoint.save_steps : Interval{.amount = -1};
}

TEST(ReadConfig, ReadsHowOftenAndForHowLong) {
  const auto expect = [](const std::string& value, double amount, IntervalUnit unit) {
    Interval found = SaveSteps(value);
    EXPECT_DOUBLE_EQ(found.amount, amount) << value;
    EXPECT_EQ(found.unit, unit) << value;
    // As the resolved config has it.
    const Interval again = SaveSteps(SlotText(&found));
    EXPECT_EQ(again.amount, found.amount) << value;
    EXPECT_EQ(again.unit, found.unit) << value;
  };
  expect("500", 500, IntervalUnit::kSteps);
  expect("\"500 steps\"", 500, IntervalUnit::kSteps);
  expect("1e3", 1000, IntervalUnit::kSteps);
  expect("2 epochs", 2, IntervalUnit::kEpochs);
  expect("0.5 epoch", 0.5, IntervalUnit::kEpochs);
  expect("30 min", 1800, IntervalUnit::kSeconds);
  expect("2 H", 7200, IntervalUnit::kSeconds);
  expect("90s", 90, IntervalUnit::kSeconds);
  expect("23:50:00", 85800, IntervalUnit::kSeconds);
  expect("1:01:00:01", 90001, IntervalUnit::kSeconds);
  expect("0", 0, IntervalUnit::kSteps);
}

TEST(ReadConfig, SaysWhatAnIntervalLooksLike) {
  const auto hint = [](const std::string& set) {
    const Result<Config> config = Read({kGpt, {set}});
    EXPECT_FALSE(config.has_value()) << set;
    return config.has_value() ? "" : config.error().title + ": " + config.error().hint;
  };
  EXPECT_EQ(hint("checkpoint.save_steps=epoch"), "WRONG TYPE: Here that is \"1 epoch\".");
  EXPECT_EQ(hint("checkpoint.save_steps=\"500\""), "WRONG TYPE: Remove the quotes.");
  EXPECT_EQ(hint("optimizer.learning_rate=nan"), "WRONG TYPE: ");
  EXPECT_EQ(hint("checkpoint.save_steps=false"),
            "WRONG TYPE: For no checkpoint before the end write 0.");
  EXPECT_EQ(hint("checkpoint.save_steps=-1"), "OUT OF RANGE: ");
  for (const char* bad : {"1.5 steps", "2 weeks", "-3 min", "12:00", "1:2:3:4:5", "min", "\"\""}) {
    EXPECT_EQ(hint(std::string("checkpoint.save_steps=") + bad), "WRONG TYPE: ") << bad;
  }
  EXPECT_EQ(hint("evaluation.eval_steps=epoch"), "WRONG TYPE: Here that is \"1 epoch\".");
  EXPECT_EQ(hint("evaluation.eval_steps=no"),
            "WRONG TYPE: For one evaluation, at the end, write 0.");
  EXPECT_EQ(hint("evaluation.eval_steps=30 min"), "WRONG TYPE: ");
  EXPECT_EQ(hint("run.max_time=90"), "WRONG TYPE: ");
  EXPECT_EQ(hint("run.max_time=2 epochs"), "WRONG TYPE: ");
}

}  // namespace
}  // namespace ddprun::trainer
