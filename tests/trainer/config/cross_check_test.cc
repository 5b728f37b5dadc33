// Keys that must fit each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/config_text_fixture.h"

namespace ddprun::trainer {
namespace {

std::string FirstLine(const Reading& reading) {
  const std::string body = ComplaintBody(reading);
  return body.empty() ? "" : body.substr(1, body.find('\n', 1) - 1);
}

TEST(CrossCheck, TheSmallestConfigsAreComplete) {
  EXPECT_EQ(Complaint({kGpt}), "");
  EXPECT_EQ(Complaint({kMlp}), "");
}

TEST(CrossCheck, HeadsShareTheHiddenSizeEqually) {
  EXPECT_EQ(Complaint({kGpt, {"model.num_attention_heads=3"}}), R"(
-- KEYS THAT DO NOT FIT ---------------------------------- --set model.num_attention_heads=3
model.hidden_size (128) is no multiple of model.num_attention_heads (3):
--set model.num_attention_heads=3
                                ^
Every head takes an equal share of the hidden size.
More: ddprun explain keys-that-do-not-fit
)");
  EXPECT_EQ(FirstLine({kGpt, {"model.hidden_size=130"}}),
            "model.hidden_size (130) is no multiple of model.num_attention_heads (4):");
}

TEST(CrossCheck, RanksShareOutLayersThatCanBe) {
  const auto complaint = [](const char* config, const std::string& key) {
    return FirstLine({config, {"strategy.type=tensor_parallel", key}});
  };
  EXPECT_EQ(complaint(kGpt, "strategy.tensor_parallel_size=2"), "");
  EXPECT_EQ(complaint(kMlp, "strategy.comm_hook=bf16"), "");
  EXPECT_EQ(complaint(kGpt, "strategy.comm_hook=power_sgd"),
            "strategy.comm_hook \"power_sgd\" works on whole parameters, but strategy.type "
            "\"tensor_parallel\" gives each rank a part of each parameter:");
  EXPECT_EQ(FirstLine({kGpt, {"strategy.type=ddp", "strategy.tensor_parallel_size=2"}}),
            "strategy.tensor_parallel_size is for strategy.type \"tensor_parallel\" or "
            "\"pipeline\" or \"zero1\" or \"zero2\" or \"zero3\", but this config has "
            "\"ddp\":");
  EXPECT_EQ(FirstLine({R"({"model": {"type": "resnet18"},
                           "data": {"format": "image_folder", "train_files": "a"}})",
                       {"strategy.type=tensor_parallel"}}),
            "model.type \"resnet18\" has layers that ranks cannot divide, but strategy.type "
            "\"tensor_parallel\" divides each layer:");
}

TEST(CrossCheck, MeshesOfSeveralAxes) {
  const auto complaint = [](const std::string& type, std::vector<std::string> keys) {
    keys.push_back("strategy.type=" + type);
    return FirstLine({kGpt, keys});
  };
  const std::string tensor = "strategy.tensor_parallel_size=2";
  const std::string stages = "strategy.pipeline_parallel_size=2";
  EXPECT_EQ(complaint("pipeline", {tensor, stages}), "");
  for (const char* type : {"zero1", "zero2", "zero3"}) EXPECT_EQ(complaint(type, {tensor}), "");
  EXPECT_EQ(complaint("zero1", {tensor, stages, "strategy.pipeline_schedule=gpipe"}), "");
  EXPECT_EQ(
      complaint("zero1", {"strategy.pipeline_schedule=gpipe"}),
      "strategy.type \"zero1\" has pipeline stages only with strategy.pipeline_parallel_size:");
  EXPECT_EQ(complaint("zero1", {stages, "strategy.comm_hook=bf16"}),
            "strategy.comm_hook \"bf16\" changes gradients before they are averaged, but "
            "strategy.pipeline_parallel_size 2 averages gradients as they are:");
  EXPECT_EQ(complaint("pipeline", {tensor, R"(strategy.devices=["cpu", "cpu"])"}),
            "strategy.devices [\"cpu\",\"cpu\"] has several devices in one process, but "
            "strategy.tensor_parallel_size 2 divides each layer over ranks:");
}

constexpr char kLlama[] = R"({
  "model": {"type": "llama", "hidden_size": 96, "num_attention_heads": 8},
  "data": {"train_files": "a"}
})";

TEST(CrossCheck, HeadsOfALlamaAreEvenAndOfAnySize) {
  EXPECT_EQ(Complaint({kLlama}), "");
  EXPECT_EQ(Read({kLlama})->model.head_dim, 12);
  EXPECT_EQ(Complaint({kLlama, {"model.head_dim=10", "model.hidden_size=100"}}), "");
  EXPECT_EQ(FirstLine({kLlama, {"model.head_dim=7"}}), "A head is 7 wide (model.head_dim):");
  EXPECT_EQ(FirstLine({kLlama, {"model.hidden_size=72"}}), "A head is 9 wide (model.head_dim):");
  EXPECT_EQ(FirstLine({kLlama, {"model.hidden_size=100"}}),
            "model.hidden_size (100) is no multiple of model.num_attention_heads (8):");
}

TEST(CrossCheck, RopeScalingIsWhatTransformersTakes) {
  const auto complaint = [](const std::string& object) {
    return FirstLine({kLlama, {"model.rope_scaling=" + object}});
  };
  const std::string llama3 = R"("rope_type": "llama3", "factor": 8, "low_freq_factor": 1)";
  EXPECT_EQ(complaint("null"), "");
  EXPECT_EQ(complaint(R"({"rope_type": "default"})"), "");
  EXPECT_EQ(complaint(R"({"type": "linear", "factor": 2})"), "");
  EXPECT_EQ(complaint("{" + llama3 +
                      R"(, "high_freq_factor": 4, "original_max_position_embeddings": 64})"),
            "");
  EXPECT_EQ(Complaint({kLlama, {R"(model.rope_scaling={"rope_type": "linear"})"}}), R"(
-- KEYS THAT DO NOT FIT ------------------- --set model.rope_scaling={"rope_type": "linear"}
In model.rope_scaling "factor" is missing; "linear" needs a number of at least 1:
--set model.rope_scaling={"rope_type": "linear"}
                         ^^^^^^^^^^^^^^^^^^^^^^^
Write it as config.json of transformers has it, such as {"rope_type": "linear", "factor": 4.0}.
More: ddprun explain keys-that-do-not-fit
)");
  for (const auto& [object, said] : std::vector<std::pair<std::string, std::string>>{
           {R"({"factor": 2})",
            R"("rope_type" is missing; known are "default", "linear", "dynamic" and "llama3")"},
           {R"({"rope_type": "yarn", "factor": 2})",
            R"("rope_type" is "yarn"; known are "default", "linear", "dynamic" and "llama3")"},
           {R"({"rope_type": "linear", "factor": 0.5})",
            R"("factor" is 0.5; "linear" needs a number of at least 1)"},
           {R"({"rope_type": "linear", "factor": 2, "low_freq_factor": 1})",
            R"("low_freq_factor" is not an option of "linear")"},
           {"{" + llama3 + R"(, "high_freq_factor": 4, "original_max_position_embeddings": 0.5})",
            R"("original_max_position_embeddings" is 0.5; "llama3" needs a whole number above 0)"},
           {"{" + llama3 + R"(, "high_freq_factor": 1, "original_max_position_embeddings": 64})",
            R"("high_freq_factor" is not above "low_freq_factor")"}}) {
    EXPECT_EQ(complaint(object), "In model.rope_scaling " + said + ":");
  }
}

TEST(CrossCheck, TheLearningRateFallsAfterAnIntervalAboveZero) {
  const auto complaint = [](const std::string& size) {
    return FirstLine({kGpt, {"scheduler.lr_scheduler_type=step", "scheduler.step_size=" + size}});
  };
  EXPECT_EQ(complaint("0"), "The learning rate cannot fall after every 0 steps:");
  for (const char* size : {"100", "30 epochs", "0.5 epochs"})
    EXPECT_EQ(complaint(size), "") << size;
}

TEST(CrossCheck, LearningRateFactorsAreNumbersAboveZero) {
  const auto complaint = [](const std::string& object) {
    return FirstLine({kGpt, {"optimizer.learning_rate_factors=" + object}});
  };
  EXPECT_EQ(complaint(R"({"wte": 0.1, "h.0": 3})"), "");
  for (const auto& [object, said] : std::vector<std::pair<std::string, std::string>>{
           {R"({"wte": 0})", R"("wte" has 0, which is no number above 0)"},
           {R"({"wte": "ten"})", R"("wte" has "ten", which is no number above 0)"},
           {R"({"wte": 1, "lm_head": [2]})", R"("lm_head" has [2], which is no number above 0)"},
           {R"({"": 2})", "a word is empty"}}) {
    EXPECT_EQ(complaint(object), "In optimizer.learning_rate_factors " + said + ":");
  }
}

TEST(CrossCheck, WeightDecayFactorsAreNumbersOfAtLeastZero) {
  const auto complaint = [](const std::string& object) {
    return FirstLine({kGpt, {"optimizer.weight_decay_factors=" + object}});
  };
  EXPECT_EQ(complaint(R"({"wte": 0, "h.0": 3})"), "");
  EXPECT_EQ(complaint(R"({"wte": -1})"),
            "In optimizer.weight_decay_factors \"wte\" has -1, which is no number of at least 0:");
}

TEST(CrossCheck, MilestonesAreStepsOrShares) {
  const auto complaint = [](const std::string& milestones) {
    return Complaint(
        {kGpt, {"scheduler.lr_scheduler_type=multi_step", "scheduler.milestones=" + milestones}});
  };
  EXPECT_EQ(complaint("[0.5, 300]"), "");
  EXPECT_THAT(complaint("[2.5]"), testing::HasSubstr("cannot have a fraction"));
  EXPECT_THAT(complaint("[0]"), testing::HasSubstr("above 0"));
  EXPECT_THAT(complaint("[]"), testing::HasSubstr("scheduler.milestones"));
}

TEST(CrossCheck, TheLossIsOneThatTheModelHas) {
  EXPECT_EQ(FirstLine({kGpt, {"training.loss=mse"}}), "model.type \"gpt\" has another loss:");
  EXPECT_EQ(Complaint({kGpt, {"training.loss=causal_lm", "training.label_smoothing=0.1"}}), "");
  EXPECT_EQ(Complaint({kMlp, {"training.loss=mse"}}), "");
  const char* const plugin =
      R"({"model": {"type": "plugin", "path": "b"}, "data": {"format": "plugin"}})";
  EXPECT_EQ(FirstLine({plugin, {"training.loss=mse"}}), "model.type \"plugin\" has another loss:");
  EXPECT_EQ(FirstLine({plugin, {"training.label_smoothing=0.1"}}),
            "model.type \"plugin\" brings its own loss:");
}

TEST(CrossCheck, DevicesAreOfTheKindThatIsAskedFor) {
  const std::string devices = R"(strategy.devices=["cuda:0", "cuda:1"])";
  EXPECT_EQ(Complaint({kMlp, {"strategy.type=dp", devices}}), "");
  EXPECT_EQ(FirstLine({kMlp, {"strategy.type=dp", devices, "run.device=cpu"}}),
            "run.device is \"cpu\":");
  EXPECT_EQ(Complaint({kMlp, {"run.device=cuda:0"}}), "");
  EXPECT_EQ(FirstLine({kMlp, {"strategy.type=dp", devices, "run.device=cuda:1"}}),
            "run.device is \"cuda:1\":");
}

TEST(CrossCheck, TheBestCheckpointIsBestInSomethingThatIsComputed) {
  EXPECT_EQ(Complaint({kGpt, {"checkpoint.save_best=loss"}}), "");
  EXPECT_EQ(Complaint({kGpt, {"checkpoint.save_best=perplexity"}}), "");
  EXPECT_EQ(FirstLine({kGpt, {"checkpoint.save_best=val_loss"}}),
            "\"val_loss\" is neither \"loss\" nor a metric:");
  EXPECT_EQ(FirstLine({kGpt, {"checkpoint.save_best=f1", "evaluation.metrics=accuracy"}}),
            "\"f1\" is not computed in this run:");
  EXPECT_EQ(FirstLine({kGpt, {"checkpoint.save_best=accuracy"}}),
            "\"accuracy\" is not computed in this run:");
  EXPECT_EQ(FirstLine({kMlp, {"checkpoint.save_best=accuracy"}}),
            "\"accuracy\" is not computed in this run:");  // its data has numbers
}

TEST(CrossCheck, MetricsAreOfWhatTheDataHasToPredict) {
  EXPECT_EQ(FirstLine({kMlp, {"evaluation.metrics=accuracy"}}),
            "\"accuracy\" is a metric of classes, but this data has numbers to predict:");
  EXPECT_EQ(FirstLine({kGpt, {"evaluation.metrics=[\"accuracy\", \"mse\"]"}}),
            "\"mse\" is a metric of numbers, but this data has classes or tokens to predict:");
  EXPECT_EQ(Complaint({kMlp, {"evaluation.metrics=[\"mse\", \"perplexity\"]"}}), "");
  const std::string table = R"({"model": {"type": "linear"},
      "data": {"format": "csv", "train_files": "a", "label_column": "y"},
      "evaluation": {"metrics": ["f1"]}})";
  EXPECT_EQ(Complaint({table}), "");
  EXPECT_EQ(FirstLine({table, {"data.target_type=number"}}),
            "\"f1\" is a metric of classes, but this data has numbers to predict:");
}

TEST(CrossCheck, GoingOnByNameNeedsAName) {
  EXPECT_EQ(FirstLine({kGpt, {"run.resume=auto"}}),
            "The run has no name, so that its folder is a new one at each start:");
  EXPECT_EQ(Complaint({kGpt, {"run.resume=auto", "run.name=a"}}), "");
}

TEST(CrossCheck, OnlyTextHasALongestSequence) {
  EXPECT_EQ(FirstLine({kGpt, {"model.max_position_embeddings=64"}}),
            "data.max_seq_length (128) is more than model.max_position_embeddings (64):");
  const char* const plugin =
      R"({"model": {"type": "gpt"}, "data": {"format": "plugin", "plugin": "b"}})";
  EXPECT_EQ(Complaint({plugin, {"model.max_position_embeddings=64"}}), "");
}

TEST(CrossCheck, BytesNeedAVocabularyOf256) {
  EXPECT_EQ(FirstLine({kGpt, {"model.vocab_size=255"}}),
            "Text is read by bytes, and bytes have 256 values:");
}

TEST(CrossCheck, ModelAndDataMustMatch) {
  EXPECT_EQ(
      FirstLine({kGpt, {"data.format=random", "data.train_files=[]"}}),
      "model.type \"gpt\" trains on text, but data.format \"random\" gives numbers or images:");
  EXPECT_EQ(FirstLine({R"({"model": {"type": "mlp", "layer_sizes": [3, 4]}})"}),
            "model.type \"mlp\" trains on numbers or images, but data.format \"text\" gives text:");
}

TEST(CrossCheck, AnMlpNeedsTwoSizes) {
  EXPECT_EQ(FirstLine({kMlp, {"model.layer_sizes=[]"}}),
            "model.layer_sizes is missing; model.type \"mlp\" needs it:");
  EXPECT_EQ(FirstLine({kMlp, {"model.layer_sizes=[10]"}}), "One size makes no layer:");
}

constexpr char kCsv[] = R"({
  "model": {"type": "mlp", "layer_sizes": [4, 3]},
  "data": {"format": "csv", "train_files": "a.csv", "label_column": "kind"}
})";

TEST(CrossCheck, TablesNeedAColumnToPredict) {
  EXPECT_EQ(FirstLine({kCsv, {"data.label_column="}}),
            "data.label_column is missing; data.format \"csv\" needs it:");
  EXPECT_EQ(FirstLine({kCsv, {"data.feature_columns=[\"kind\"]"}}),
            "The column to predict is among those to predict from:");
  EXPECT_EQ(FirstLine({kCsv, {"data.categorical_columns=[\"kind\"]"}}),
            "\"kind\" is no column to predict from:");
  EXPECT_EQ(FirstLine({kCsv, {"data.delimiter=,,"}}),
            "The delimiter is one character, and no quote or line break:");
  EXPECT_EQ(FirstLine({kCsv, {"data.target_type=number", "data.labels=[\"a\"]"}}),
            "Numbers to predict have no classes:");
}

TEST(CrossCheck, ImagesHaveOneChannelOrThree) {
  const std::vector<std::string> images = {"data.format=image_folder", "data.label_column="};
  const auto with = [&](std::string text) {
    std::vector<std::string> all = images;
    all.push_back(std::move(text));
    return FirstLine({kCsv, all});
  };
  EXPECT_EQ(with("data.image_std=[1,1]"),
            "Images have one channel or three, and this list is for 2:");
  EXPECT_EQ(with("data.random_resized_crop=true"),
            "data.image_size is missing; data.random_resized_crop needs it:");
}

TEST(CrossCheck, RandomSizesAreThoseOfTheModel) {
  EXPECT_EQ(FirstLine({kMlp, {"data.input_size=9"}}),
            "data.input_size (9) differs from the first of model.layer_sizes (10):");
  EXPECT_EQ(FirstLine({kMlp, {"data.target_size=9"}}),
            "data.target_size (9) differs from the last of model.layer_sizes (5):");
  EXPECT_EQ(FirstLine({kMlp, {"data.num_samples=0"}}),
            "data.num_samples is missing; data.format \"random\" needs it:");
}

TEST(CrossCheck, ClippingNeedsAllGradientsBeforeTheStep) {
  const std::string title =
      " updates parameters before all gradients are averaged, but training.max_grad_norm 1 needs "
      "the norm of all gradients:";
  EXPECT_EQ(FirstLine({kGpt, {"strategy.overlap=step"}}), "strategy.overlap \"step\"" + title);
  EXPECT_EQ(FirstLine({kGpt, {"strategy.overlap=both"}}), "strategy.overlap \"both\"" + title);
  EXPECT_EQ(Complaint({kGpt, {"strategy.overlap=step", "training.max_grad_norm=0"}}), "");
  EXPECT_EQ(Complaint({kGpt, {"strategy.overlap=none"}}), "");
}

TEST(CrossCheck, StepsWithinBackwardNeedNoNormAndNoLaterWait) {
  const std::string in_backward = "strategy.optimizer_in_backward=true";
  EXPECT_EQ(FirstLine({kGpt, {in_backward}}),
            "strategy.optimizer_in_backward true updates parameters before all gradients are "
            "averaged, but training.max_grad_norm 1 needs the norm of all gradients:");
  const std::string no_norm = "training.max_grad_norm=0";
  EXPECT_EQ(Complaint({kGpt, {in_backward, no_norm}}), "");
  EXPECT_EQ(FirstLine({kGpt, {in_backward, no_norm, "strategy.overlap=both"}}),
            "strategy.optimizer_in_backward true updates parameters in the backward pass, but "
            "strategy.overlap \"both\" waits for gradients after it:");
}

TEST(CrossCheck, OnlyBlocksThatAreKnownAreRecomputed) {
  EXPECT_EQ(Complaint({kGpt, {"training.gradient_checkpointing=true"}}), "");
  const std::string own =
      R"({"model": {"type": "plugin", "path": "b"}, "data": {"format": "plugin"}})";
  EXPECT_EQ(Complaint({own}), "");
  EXPECT_EQ(FirstLine({own, {"training.gradient_checkpointing=true"}}),
            "model.type \"plugin\" runs code of your own, but training.gradient_checkpointing true "
            "needs to know the blocks of the model:");
}

TEST(CrossCheck, DataParallelHasDevicesAndNothingBetweenProcesses) {
  const auto complaint = [](std::vector<std::string> more) {
    more.insert(more.begin(), "strategy.type=dp");
    return FirstLine({kGpt, more});
  };
  const std::string two = R"(strategy.devices=["cpu","cpu"])";
  EXPECT_EQ(complaint({two}), "");
  EXPECT_EQ(complaint({R"(strategy.devices=["cuda:0","cuda:11"])", "strategy.output_device=1",
                       "strategy.loss=parallel", "training.precision=fp16"}),
            "");
  EXPECT_EQ(complaint({}), R"(strategy.devices is missing; strategy.type "dp" needs it.)");
  for (const char* bad : {"gpu", "cuda", "cuda:", "cuda:x", "cpu:0", ""}) {
    EXPECT_EQ(complaint({"strategy.devices=[\"cpu\", \"" + std::string(bad) + "\"]"}),
              "\"" + std::string(bad) + "\" is no device to train on:");
  }
  EXPECT_EQ(complaint({R"(strategy.devices=["cpu","cuda:0"])"}),
            "The devices of \"dp\" have to be of one kind:");
  EXPECT_EQ(complaint({two, "strategy.output_device=2"}),
            "strategy.devices has 2, counted from 0:");
  EXPECT_EQ(complaint({two, "training.virtual_ranks=2"}),
            "strategy.type \"dp\" is one process, but training.virtual_ranks 2 needs strategy.type "
            "\"ddp\", also with one process:");
  EXPECT_EQ(complaint({two, "strategy.overlap=none"}),
            "strategy.overlap is not for strategy.type \"dp\", but this config has \"dp\":");
  EXPECT_EQ(FirstLine({kGpt, {two}}),
            "strategy.devices is for strategy.type \"dp\" or \"model_parallel\" or \"pipeline\", "
            "but this config has \"auto\":");
}

TEST(CrossCheck, Float16DecidesAboutAStepWhenAllGradientsAreThere) {
  const auto complaint = [](const std::string& other) {
    return FirstLine({kGpt, {"training.precision=fp16", "training.max_grad_norm=0", other}});
  };
  EXPECT_EQ(complaint("training.loss_scale_growth_interval=5"), "");
  EXPECT_EQ(complaint("strategy.comm_hook=fp16"), "");
  for (const char* other : {"strategy.overlap=step", "strategy.optimizer_in_backward=true",
                            "strategy.check_finite=true", "strategy.comm_hook=power_sgd",
                            "strategy.comm_hook=post_local_sgd"}) {
    EXPECT_NE(complaint(other).find("fp16"), std::string::npos) << other;
  }
}

TEST(CrossCheck, BucketSizesAreANumberOrAuto) {
  EXPECT_EQ(Complaint({kGpt, {"strategy.bucket_cap_mb=auto"}}), "");
  EXPECT_EQ(Complaint({kGpt, {"strategy.bucket_cap_mb=0.5"}}), "");
  EXPECT_EQ(FirstLine({kGpt, {"strategy.bucket_cap_mb=automatic"}}),
            "strategy.bucket_cap_mb is a string here:");
  EXPECT_EQ(FirstLine({kGpt, {"strategy.bucket_cap_mb=0"}}), "strategy.bucket_cap_mb cannot be 0:");
  EXPECT_EQ(FirstLine({kGpt, {"strategy.bucket_cap_mb=auto", "strategy.first_bucket_mb=2"}}),
            "strategy.bucket_cap_mb \"auto\" changes the size of buckets, but "
            "strategy.first_bucket_mb 2 fixes the size of the first bucket:");
}

TEST(CrossCheck, GradientsAreAlwaysViewsOfBuckets) {
  EXPECT_EQ(Complaint({kGpt, {"strategy.gradient_as_bucket_view=true"}}), "");
  EXPECT_EQ(FirstLine({kGpt, {"strategy.gradient_as_bucket_view=false"}}),
            "Gradients are always views of their buckets here, so this cannot be false:");
}

TEST(CrossCheck, OptionsOfAHookNeedTheHook) {
  EXPECT_EQ(FirstLine({kGpt, {"strategy.power_sgd_rank=2"}}),
            "strategy.power_sgd_rank is for strategy.comm_hook \"power_sgd\", but this config has "
            "\"none\":");
  EXPECT_EQ(Complaint({kGpt, {"strategy.comm_hook=power_sgd", "strategy.power_sgd_rank=2"}}), "");
}

TEST(CrossCheck, AKeyForAnotherKindIsRefused) {
  EXPECT_EQ(FirstLine({kGpt, {"model.layer_sizes=[1,2]"}}),
            "model.layer_sizes is for model.type \"mlp\", but this config has \"gpt\":");
  EXPECT_EQ(FirstLine({kGpt, {"optimizer.momentum=0.9"}}),
            "optimizer.momentum is for optimizer.type \"sgd\", but this config has \"adamw\":");
}

TEST(CrossCheck, AKeyForAnotherKindMayHoldItsDefault) {
  EXPECT_EQ(Complaint({kGpt, {"optimizer.momentum=0", "model.layer_sizes=[]"}}), "");
}

TEST(CrossCheck, ValidationComesFromFilesOrFromAFraction) {
  EXPECT_EQ(FirstLine({kGpt, {"data.validation_files=b", "data.validation_fraction=0.1"}}),
            "There are data.validation_files already, so no share of the training samples is "
            "needed:");
}

TEST(CrossCheck, ARunHasSteps) {
  EXPECT_EQ(Complaint({kGpt, {"run.max_steps=0"}}), R"(
-- KEYS THAT DO NOT FIT ---------------------------------------------- --set run.max_steps=0
A run of 0 steps trains nothing:
--set run.max_steps=0
                    ^
Set it to -1 to train as long as run.max_epochs says. Evaluating without training is not there yet.
More: ddprun explain keys-that-do-not-fit
)");
  EXPECT_EQ(Complaint({kGpt, {"run.max_steps=-1"}}), "");
}

TEST(CrossCheck, ANameStaysInTheFolderOfRuns) {
  for (const char* name : {"../../x", "a/../../b", ".."}) {
    EXPECT_EQ(FirstLine({kGpt, {std::string("run.name=") + name}}),
              "A name with \"..\" in it leaves the folder of runs:");
  }
  EXPECT_EQ(Complaint({kGpt, {"run.name=lr/1e-3..2e-3"}}), "");
}

TEST(CrossCheck, WarmupIsAShareOrAWholeNumber) {
  EXPECT_EQ(Complaint({kGpt, {"scheduler.warmup_steps=0.1"}}), "");
  EXPECT_EQ(FirstLine({kGpt, {"scheduler.warmup_steps=1.5"}}),
            "From 1 on this is a number of steps, which cannot have a fraction:");
}

}  // namespace
}  // namespace ddprun::trainer
