// The text of every message about a config, as a user sees it.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_text_fixture.h"

namespace ddprun::trainer {
namespace {

TEST(ConfigMessages, UnknownKeyNamesTheNearestOne) {
  EXPECT_EQ(Complaint({R"({
  "strategy": {
    "bucket_caps_mb": 25,
  },
  "model": { "type": "gpt" }, "data": { "train_files": "a" },
})"}),
            R"(
-- UNKNOWN KEY -------------------------------------------------------------- train.json:3:5
The section "strategy" has no key "bucket_caps_mb":
3|     "bucket_caps_mb": 25,
       ^^^^^^^^^^^^^^^^
Did you mean "bucket_cap_mb"? (MiB, default 25)
More: ddprun explain unknown-key
)");
}

TEST(ConfigMessages, AnotherToolsNameIsTranslated) {
  EXPECT_EQ(ComplaintBody({R"({"training": {"max_norm": 1}})"}), R"(
The section "training" has no key "max_norm":
1| {"training": {"max_norm": 1}}
                 ^^^^^^^^^^
"max_norm" is the name in torchtitan; here it is training.max_grad_norm (default 1).
)");
}

TEST(ConfigMessages, AKeyInTheWrongSectionIsSentToItsOwn) {
  EXPECT_EQ(ComplaintBody({R"({"training": {"learning_rate": 1}})"}), R"(
The section "training" has no key "learning_rate":
1| {"training": {"learning_rate": 1}}
                 ^^^^^^^^^^^^^^^
"learning_rate" belongs in the section "optimizer": optimizer.learning_rate.
)");
}

TEST(ConfigMessages, AKeyThatResemblesNothingGetsTheListOfKeys) {
  EXPECT_EQ(ComplaintBody({R"({"scheduler": {"zzzzzzzzzzzzzzzzzzzz": 1}})"}), R"(
The section "scheduler" has no key "zzzzzzzzzzzzzzzzzzzz":
1| {"scheduler": {"zzzzzzzzzzzzzzzzzzzz": 1}}
                  ^^^^^^^^^^^^^^^^^^^^^^
Its keys are lr_scheduler_type, warmup_steps, warmup_from_zero, min_lr_ratio, range_test,
num_cycles, power, decay_steps, decay_type, step_size, milestones, gamma, pct_start,
div_factor, final_div_factor, plateau_factor, plateau_patience, plateau_threshold,
plateau_cooldown.
)");
}

TEST(ConfigMessages, UnknownSectionNamesTheNearestOne) {
  EXPECT_EQ(
      Complaint({R"({"optimiser": {}, "model": {"type": "gpt"}, "data": {"train_files": "a"}})"}),
      R"(
-- UNKNOWN SECTION ---------------------------------------------------------- train.json:1:2
A config has no section "optimiser":
1| {"optimiser": {}, "model": {"type": "gpt"}, "data": {"train_files": "a"}}
    ^^^^^^^^^^^
Did you mean "optimizer"?
More: ddprun explain unknown-key
)");
}

TEST(ConfigMessages, AKeyOutsideOfAnySectionIsSentToItsOwn) {
  EXPECT_EQ(ComplaintBody({R"({"learning_rate": 1})"}), R"(
A config has no section "learning_rate":
1| {"learning_rate": 1}
    ^^^^^^^^^^^^^^^
"learning_rate" belongs in the section "optimizer": optimizer.learning_rate.
)");
}

TEST(ConfigMessages, ASectionIsKnownByOtherNames) {
  EXPECT_EQ(ComplaintBody({R"({"ddp": {"bucket_cap_mb": 1}})"}), R"(
A config has no section "ddp":
1| {"ddp": {"bucket_cap_mb": 1}}
    ^^^^^
Here that section is called "strategy".
)");
}

TEST(ConfigMessages, DuplicateKeyShowsBothPlaces) {
  EXPECT_EQ(Complaint({R"({
  "run": { "seed": 1,
           "seed": 2 },
  "model": { "type": "gpt" }, "data": { "train_files": "a" },
})"}),
            R"(
-- DUPLICATE KEY ----------------------------------------------------------- train.json:3:12
"seed" stands here again:
3|            "seed": 2 },
              ^^^^^^
It stands here first:
2|   "run": { "seed": 1,
              ^^^^^^
Remove one of them.
More: ddprun explain duplicate-key
)");
}

TEST(ConfigMessages, WrongTypeSaysWhatIsAccepted) {
  EXPECT_EQ(Complaint({R"({
  "model": { "type": "gpt" }, "data": { "train_files": "a" },
  "training": { "per_device_train_batch_size": "8" },
})"}),
            R"(
-- WRONG TYPE -------------------------------------------------------------- train.json:3:48
training.per_device_train_batch_size is a string here:
3|   "training": { "per_device_train_batch_size": "8" },
                                                  ^^^
Accepted: an integer from 1 to 1073741824 (samples, default 8).
Remove the quotes.
More: ddprun explain wrong-type
)");
}

TEST(ConfigMessages, AFractionIsNoInteger) {
  EXPECT_EQ(ComplaintBody({R"({"run": {"max_steps": 1.5}})"}), R"(
run.max_steps is a number with a fraction here:
1| {"run": {"max_steps": 1.5}}
                         ^^^
Accepted: an integer of at least -1 (optimizer steps, default -1).
)");
}

TEST(ConfigMessages, AListOfTheWrongLengthIsShown) {
  EXPECT_EQ(ComplaintBody({R"({"optimizer": {"betas": [0.9]}})"}), R"(
optimizer.betas is a list of 1 here:
1| {"optimizer": {"betas": [0.9]}}
                           ^^^^^
Accepted: a list of two numbers of at least 0 and below 1 (default [0.9,0.95]; lion: [0.9,0.99]).
)");
}

TEST(ConfigMessages, OutOfRangePointsToTheElementOfAList) {
  EXPECT_EQ(Complaint({R"({"optimizer": {"betas": [0.9, 1]}, "model": {"type": "gpt"}})"}), R"(
-- OUT OF RANGE ------------------------------------------------------------ train.json:1:31
optimizer.betas cannot be 1:
1| {"optimizer": {"betas": [0.9, 1]}, "model": {"type": "gpt"}}
                                 ^
Accepted: a list of two numbers of at least 0 and below 1 (default [0.9,0.95]; lion: [0.9,0.99]).
More: ddprun explain out-of-range
)");
}

TEST(ConfigMessages, UnknownChoiceListsTheChoices) {
  EXPECT_EQ(Complaint({R"({"model": {"type": "gpt"}, "optimizer": {"type": "adamW"}})"}), R"(
-- UNKNOWN CHOICE ---------------------------------------------------------- train.json:1:50
optimizer.type cannot be "adamW":
1| {"model": {"type": "gpt"}, "optimizer": {"type": "adamW"}}
                                                    ^^^^^^^
Accepted: one of "adamw", "adam", "sgd", "adagrad", "lion" (default "adamw").
Did you mean "adamw"?
More: ddprun explain unknown-choice
)");
}

TEST(ConfigMessages, UnknownVariableNamesTheNearestOne) {
  Environment environment;
  environment.Set("CORPUS", "/data");
  EXPECT_EQ(Complaint({R"({"model": {"type": "gpt"}, "data": {"train_files": ["${CORPSU}/a"]}})",
                       {},
                       environment}),
            R"(
-- UNKNOWN VARIABLE -------------------------------------------------------- train.json:1:54
The environment has no variable CORPSU:
1| {"model": {"type": "gpt"}, "data": {"train_files": ["${CORPSU}/a"]}}
                                                        ^^^^^^^^^
Did you mean ${CORPUS}?
More: ddprun explain unknown-variable
)");
}

TEST(ConfigMessages, AMissingKeyIsExplained) {
  EXPECT_EQ(Complaint({"{}"}),
            R"(
-- MISSING KEY ------------------------------------------------------------------ train.json
model.type is missing; every config needs it.
Accepted: one of "gpt", "mlp", "bert", "llama", "linear", "cnn", "resnet18", "resnet34", )"
            R"("resnet50", "resnet101", "torchscript", "plugin".
The architecture: "bert" for classes of texts and pairs of texts, "gpt" (GPT-2) and "llama" for )"
            R"(the next token, "mlp" a chain of linear layers, "linear" one linear layer; )"
            R"("cnn" and "resnet18" to "resnet101" for images; "torchscript" a model )"
            R"(defined in Python, "plugin" your own in C++. )"
            R"(Models for images and "linear" have as many outputs )"
            R"(as the data needs.
More: ddprun explain missing-key
)");
}

TEST(ConfigMessages, AMissingKeyIsExplainedAtItsSection) {
  EXPECT_EQ(Complaint({"{\"data\": {},\n \"model\": {\"type\": \"gpt\"}}"}), R"(
-- MISSING KEY -------------------------------------------------------------- train.json:1:2
data.train_files is missing; data.format "text" needs it:
1| {"data": {},
    ^^^^^^
Accepted: a string or a list of strings.
Globs of the training files, relative to the config file's folder.
More: ddprun explain missing-key
)");
}

TEST(ConfigMessages, AllErrorsComeAtOnceUpToFive) {
  const std::string complaint =
      Complaint({R"({"a1": 0, "a2": 0, "a3": 0, "a4": 0, "run": {"seed": "x", "name": 3}})"});
  size_t titles = 0;
  for (size_t at = complaint.find("-- "); at != std::string::npos;
       at = complaint.find("\n-- ", at + 1)) {
    ++titles;
  }
  EXPECT_EQ(titles, 5U);
  EXPECT_NE(complaint.find("(1 more error not shown: correct these first.)"), std::string::npos)
      << complaint;
}

TEST(ConfigMessages, AnOverrideIsShownAsItWasTyped) {
  EXPECT_EQ(Complaint({R"({"model": {"type": "gpt"}, "data": {"train_files": "a"}})",
                       {"optimizer.lr=1e-3"}}),
            R"(
-- UNKNOWN KEY ----------------------------------------------------- --set optimizer.lr=1e-3
The section "optimizer" has no key "lr":
--set optimizer.lr=1e-3
                ^^
"lr" is the name in PyTorch and DeepSpeed; here it is optimizer.learning_rate (default 0.0003).
More: ddprun explain unknown-key
)");
}

TEST(ConfigMessages, AnOverrideNeedsAKeyAndAValue) {
  const std::string good = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"}})";
  EXPECT_EQ(ComplaintBody({good, {"run.seed"}}), R"(
A key and a value with = between them were expected here:
--set run.seed
      ^^^^^^^^
Write --set section.key=value, as in --set optimizer.learning_rate=1e-4.
)");
  EXPECT_EQ(ComplaintBody({good, {"run={}"}}), R"(
This names a whole section:
--set run={}
      ^^^^^^
Write --set section.key=value, as in --set optimizer.learning_rate=1e-4.
)");
  EXPECT_EQ(ComplaintBody({good, {"optimizer.betas=[0.9, 0.9"}}), R"(
The text ends here, in the middle of a value:
--set optimizer.betas=[0.9, 0.9
                               ^
Close every { [ and ".
)");
}

}  // namespace
}  // namespace ddprun::trainer
