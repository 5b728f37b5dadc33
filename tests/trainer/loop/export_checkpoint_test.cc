#include "trainer/worker/export_checkpoint.h"

#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/models/pretrained.h"
#include "trainer/state/torch_file.h"

namespace ddprun::trainer {
namespace {

using testing::HasSubstr;

const GptOptions kGpt{TransformerOptions{.vocab_size = 256,
                                         .max_position_embeddings = 16,
                                         .hidden_size = 16,
                                         .num_hidden_layers = 2,
                                         .num_attention_heads = 2,
                                         .intermediate_size = 64}};

// As the run of such a config leaves it, with a second name for one of the weights.
class ExportTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string text = folder_.Write("text.txt", std::string(200, 'a'));
    const nlohmann::json config = {{"model",
                                    {{"type", "gpt"},
                                     {"vocab_size", 256},
                                     {"max_position_embeddings", 16},
                                     {"hidden_size", 16},
                                     {"num_hidden_layers", 2},
                                     {"num_attention_heads", 2}}},
                                   {"data", {{"train_files", {text}}, {"max_seq_length", 8}}}};
    run_ = nlohmann::json{{"config", config}}.dump();
    moment_ = at::randn({4});
    checkpoint_ = ValueOrThrow(Checkpoint::Open(Save({}, "checkpoints")));
  }

  // As one of ranks that train apart, or of one model; the folder.
  std::string Save(RankPart part, const std::string& folder) {
    const SaveOutcome outcome = SaveCheckpoint(
        {.folder = folder_.Path(folder), .part = part}, SaveState([&](StateVisitor& visitor) {
          visitor.Section("model.", part);
          for (const auto& item : model_->State()) visitor.Tensor(item.key(), item.value());
          visitor.Tensor("tied", model_->State().begin()->value());
          visitor.Section("optimizer.");
          visitor.Tensor("moment", moment_);
          visitor.Number("step", step_);
        }),
        {.step = 7, .attempt = "a", .run = run_});
    EXPECT_FALSE(outcome.error.has_value()) << outcome.error->what;
    return outcome.path;
  }

  void ExpectModel(const std::string& path) const {
    const auto copy = MakeModel(kGpt);
    LoadWeights(*copy, path);
    for (const auto& item : model_->State()) {
      EXPECT_TRUE(copy->State()[item.key()].equal(item.value())) << item.key();
    }
  }

  const ScratchFolder folder_;
  const std::shared_ptr<Model> model_ = MakeModel(kGpt);
  std::string run_;
  at::Tensor moment_;
  int64_t step_ = 7;
  std::optional<Checkpoint> checkpoint_;
};

TEST_F(ExportTest, MakesAFolderThatLoadsAndSaysWhichModelItIs) {
  const std::string path = folder_.Path("exported");
  EXPECT_FALSE(ExportFolder(*checkpoint_, path, {}).has_value());
  EXPECT_EQ(std::get<GptOptions>(ReadModelOptions(path)).hidden_size, 16);
  ExpectModel(path);
}

TEST_F(ExportTest, TakesTheModelOfOneOfRanksThatTrainApart) {
  std::jthread other([&] { Save({.rank = 1, .size = 2}, "apart"); });
  const std::string path = Save({.rank = 0, .size = 2}, "apart");
  other.join();
  ExportFolder(ValueOrThrow(Checkpoint::Open(path)), folder_.Path("exported"), {});
  ExpectModel(folder_.Path("exported"));
}

TEST_F(ExportTest, DoesWithoutTheData) {
  std::filesystem::remove(folder_.Path("text.txt"));
  const auto missing = ExportFolder(*checkpoint_, folder_.Path("exported"), {});
  ASSERT_TRUE(missing.has_value());
  EXPECT_THAT(missing->what, HasSubstr("text.txt"));
  ExpectModel(folder_.Path("exported"));
}

TEST_F(ExportTest, MakesFilesOfTorchSave) {
  ExportTorchFile(*checkpoint_, folder_.Path("all.pt"), Exported::kAll);
  const TorchFile all(folder_.Path("all.pt"));
  EXPECT_TRUE(all.Get("optimizer.moment").equal(moment_));
  EXPECT_EQ(all.values().at("optimizer.step"), PickledValue(int64_t{7}));
  const std::string tied = "model." + model_->State().begin()->key();
  EXPECT_TRUE(all.Get("model.tied").equal(all.Get(tied)));
  EXPECT_EQ(all.entries().at("model.tied").begin, all.entries().at(tied).begin);

  ExportTorchFile(*checkpoint_, folder_.Path("model.pt"), Exported::kModel);
  const TorchFile only(folder_.Path("model.pt"));
  // "tied", and the head, which torch.save of the same model in transformers has, too.
  EXPECT_EQ(only.entries().size(), model_->State().size() + 2);
  EXPECT_EQ(only.entries().at("lm_head.weight").begin,
            only.entries().at("transformer.wte.weight").begin);
  EXPECT_TRUE(only.values().empty());
}

TEST_F(ExportTest, MakesSafetensorsWithTiedWeightsOnce) {
  ExportSafetensors(*checkpoint_, folder_.Path("m.safetensors"), Exported::kModel);
  const SafetensorsFile file(folder_.Path("m.safetensors"));
  EXPECT_EQ(file.entries().size(), model_->State().size());
  EXPECT_EQ(file.metadata().count("alias.tied"), 1U);
  ExpectModel(folder_.Path("m.safetensors"));
  ExportSafetensors(*checkpoint_, folder_.Path("a.safetensors"), Exported::kAll);
  EXPECT_EQ(SafetensorsFile(folder_.Path("a.safetensors")).metadata().at("optimizer.step"), "7");
}

// model.name_or_path takes it as it is; one tensor too many is refused as in any other file.
TEST_F(ExportTest, ACheckpointIsAModelByItself) {
  EXPECT_TRUE(HasOnlyWeights(checkpoint_->path()));
  try {
    ExpectModel(checkpoint_->path());
    FAIL() << "it has \"tied\"";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.error().what, HasSubstr("Not in the model (1): tied"));
  }
}

TEST_F(ExportTest, RefusesAFolderOfACheckpointWithoutAConfig) {
  const SaveOutcome outcome =
      SaveCheckpoint({.folder = folder_.Path("own")},
                     SaveState([&](StateVisitor& visitor) { visitor.Tensor("x", moment_); }),
                     {.step = 1, .attempt = "a"});
  const Checkpoint own = ValueOrThrow(Checkpoint::Open(outcome.path));
  try {
    ExportFolder(own, folder_.Path("exported"), {});
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().page, "no-config-in-the-checkpoint");
  }
}

}  // namespace
}  // namespace ddprun::trainer
