// Keys that a run will not feel are named when its data and ranks are known.
#include "trainer/config/config_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/config_text_fixture.h"
#include "trainer/config/library_defaults.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const RunFacts kFacts = {.ranks = 2,
                         .samples_per_rank = 100,
                         .batches_per_epoch = 13,
                         .steps_per_epoch = 13,
                         .total_steps = 13,
                         .has_validation_data = true};

std::vector<std::string> Warned(const std::vector<std::string>& overrides,
                                const RunFacts& facts = kFacts) {
  const Result<Config> config =
      Read({R"({"model": {"type": "gpt"}, "data": {"train_files": "a"}})", overrides});
  EXPECT_TRUE(config.has_value()) << Render(config.error());
  return config.has_value() ? ConfigWarnings(*config, facts) : std::vector<std::string>{};
}

TEST(ConfigWarnings, AreNoneForDefaultsAndForFactsThatAreNotKnown) {
  EXPECT_THAT(Warned({}), IsEmpty());
  EXPECT_THAT(Warned({"scheduler.warmup_steps=12", "evaluation.eval_steps=12",
                      "training.per_device_train_batch_size=100"}),
              IsEmpty());
  EXPECT_THAT(Warned({"scheduler.warmup_steps=1000", "training.per_device_train_batch_size=200000",
                      "evaluation.eval_steps=1000"},
                     {.has_validation_data = true}),
              IsEmpty());
}

TEST(LibraryDefaults, AreToldWhereAConfigLeavesThemToUs) {
  const auto told = [](const std::string& sections) {
    const Result<Config> config =
        Read({R"({"model": {"type": "gpt"}, "data": {"train_files": "a"}, )" + sections + "}"});
    EXPECT_TRUE(config.has_value()) << Render(config.error());
    return config.has_value() ? UnlikePyTorch(*config) : "";
  };
  EXPECT_EQ(told(R"("optimizer": {"type": "adam", "learning_rate": 3e-5})"),
            "defaults that differ from PyTorch's: betas [0.9,0.95] ([0.9,0.999]), "
            "max_grad_norm 1 (0), lr_scheduler_type \"cosine\" (\"constant\")");
  const std::string no_clipping = R"(, "training": {"max_grad_norm": 0}, )";
  EXPECT_EQ(told(R"("optimizer": {"type": "adamw", "learning_rate": 1})" + no_clipping +
                 R"("scheduler": {"lr_scheduler_type": "linear"})"),
            "defaults that differ from PyTorch's: betas [0.9,0.95] ([0.9,0.999]), "
            "weight_decay 0.1 (0.01)");
  EXPECT_EQ(told(R"("optimizer": {"type": "sgd", "learning_rate": 1})" + no_clipping +
                 R"("scheduler": {"lr_scheduler_type": "constant"})"),
            "");
  EXPECT_EQ(told(R"("optimizer": {"learning_rate": 1})"), "");  // names nothing of PyTorch's
}

TEST(ConfigWarnings, NameEvaluationsThatCannotBe) {
  RunFacts facts = kFacts;
  facts.has_validation_data = false;
  EXPECT_THAT(Warned({"evaluation.eval_steps=5"}, facts),
              ElementsAre("evaluation.eval_steps has no effect: there is no validation data. Give "
                          "data.validation_files or data.validation_fraction."));
  EXPECT_THAT(
      Warned({"evaluation.eval_on_start=true", "data.max_eval_samples=8"}, facts),
      ElementsAre(HasSubstr("evaluation.eval_on_start"), HasSubstr("data.max_eval_samples")));
  EXPECT_THAT(
      Warned({"evaluation.eval_steps=500"}),
      ElementsAre("evaluation.eval_steps is 500 steps, but the run has 13 steps: there is one "
                  "evaluation, at the end."));
  EXPECT_THAT(Warned({"evaluation.eval_steps=1 epoch"}), IsEmpty());
  EXPECT_THAT(Warned({"evaluation.eval_steps=1.5 epochs"}),
              ElementsAre("evaluation.eval_steps is 1.5 epochs, but the run has 13 steps: there is "
                          "one evaluation, at the end."));
}

TEST(ConfigWarnings, NameAWarmupThatNeverEnds) {
  RunFacts facts = kFacts;
  facts.total_steps = 2;
  EXPECT_THAT(
      Warned({"scheduler.warmup_steps=1000", "optimizer.learning_rate=0.5"}, facts),
      ElementsAre("scheduler.warmup_steps is 1000, but the run has 2 steps: the learning rate "
                  "never rises above 0.0005."));
  facts.total_steps = 1;
  EXPECT_THAT(
      Warned({"scheduler.warmup_steps=0.05"}, facts),
      ElementsAre("scheduler.warmup_steps is 0.05, but the run has 1 step: the learning rate "
                  "never rises above 0."));
  EXPECT_THAT(
      Warned({"scheduler.warmup_steps=0.05", "scheduler.warmup_from_zero=false",
              "optimizer.learning_rate=0.5"},
             facts),
      ElementsAre("scheduler.warmup_steps is 0.05, but the run has 1 step: the learning rate "
                  "never rises above 0.25."));
}

TEST(ConfigWarnings, NameBatchesLargerThanTheData) {
  EXPECT_THAT(Warned({"training.per_device_train_batch_size=200000"}),
              ElementsAre("training.per_device_train_batch_size is 200000, but each rank has 100 "
                          "samples in an epoch: its batches are that small."));
  EXPECT_THAT(Warned({"training.gradient_accumulation_steps=16"}),
              ElementsAre("training.gradient_accumulation_steps is 16, but an epoch has 13 "
                          "micro-batches for each rank: a step takes no more."));
}

TEST(ConfigWarnings, NameHooksThatNeverBegin) {
  EXPECT_THAT(Warned({"strategy.comm_hook=power_sgd"}),
              ElementsAre("strategy.power_sgd_start_step is 1000, but the run has 13 steps: no "
                          "gradient is compressed."));
  EXPECT_THAT(Warned({"strategy.comm_hook=post_local_sgd"}),
              ElementsAre("strategy.post_local_sgd_start_step is 100, but the run has 13 steps: "
                          "gradients are averaged in all of them."));
}

TEST(ConfigWarnings, NameKeysThatAnotherKeySwitchesOff) {
  EXPECT_THAT(
      Warned({"run.max_steps=13", "run.max_epochs=3"}),
      ElementsAre("run.max_epochs has no effect: run.max_steps sets the length of the run."));
  EXPECT_THAT(Warned({"evaluation.sample_prompt=Once"}),
              ElementsAre("evaluation.sample_prompt has no effect: evaluation.sample_length is "
                          "0."));
  EXPECT_THAT(Warned({"data.dataloader_num_workers=0", "data.dataloader_prefetch_factor=4"}),
              ElementsAre("data.dataloader_prefetch_factor has no effect: "
                          "data.dataloader_num_workers is 0."));
}

TEST(ConfigWarnings, NameDataOfOneClass) {
  RunFacts facts = kFacts;
  facts.classes = 1;
  EXPECT_THAT(
      Warned({}, facts),
      ElementsAre("data.train_files has samples of one class only, so that there is nothing to "
                  "tell apart. Is this the right column or folder of labels?"));
}

}  // namespace
}  // namespace ddprun::trainer
