#include "trainer/models/pretrained.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/models/safetensors.h"

namespace ddprun::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const ModelOptions kMlp{.type = "mlp", .layer_sizes = {4, 3, 2}, .activation = "gelu"};
const ModelOptions kGpt{.type = "gpt",
                        .hidden_size = 16,
                        .num_hidden_layers = 2,
                        .num_attention_heads = 2,
                        .intermediate_size = 24,
                        .vocab_size = 40,
                        .max_positions = 8};

class PretrainedTest : public testing::Test {
 protected:
  std::string Complaint(Model& model, const std::string& path) const {
    try {
      LoadWeights(model, path);
    } catch (const Failure& failure) {
      return failure.error().what;
    }
    return "no complaint";
  }

  NamedTensors TensorsOf(const Model& model) const {
    NamedTensors tensors;
    for (const auto& parameter : model.named_parameters()) {
      tensors.emplace_back(parameter.key(), parameter.value());
    }
    return tensors;
  }

  void ExpectEqualParameters(const Model& a, const Model& b) const {
    const auto other = b.named_parameters();
    for (const auto& parameter : a.named_parameters()) {
      EXPECT_TRUE(parameter.value().equal(other[parameter.key()])) << parameter.key();
    }
  }

  ScratchFolder folder_;
};

TEST_F(PretrainedTest, BringsAModelBackFromItsFolder) {
  for (const ModelOptions& options : {kMlp, kGpt}) {
    const auto model = MakeModel(options);
    SavePretrained(*model, folder_.Path("deep/" + options.type));
    ModelOptions read = ReadModelOptions(folder_.Path("deep/" + options.type));
    read.initialize = false;
    const auto copy = MakeModel(read);
    LoadWeights(*copy, folder_.Path("deep/" + options.type));
    ExpectEqualParameters(*model, *copy);
    EXPECT_EQ(copy->ConfigJson(), model->ConfigJson());
  }
}

TEST_F(PretrainedTest, ReadsGptFilesWithoutPrefixAndWithConstants) {
  const auto model = MakeModel(kGpt);
  NamedTensors tensors = TensorsOf(*model);
  for (auto& [name, tensor] : tensors) name = name.substr(std::string("transformer.").size());
  tensors.emplace_back("h.0.attn.bias", at::zeros({1, 1, 8, 8}));
  tensors.emplace_back("lm_head.weight", at::zeros({40, 16}));
  WriteSafetensors(folder_.Path("model.safetensors"), tensors);
  const auto copy = MakeModel(kGpt);
  LoadWeights(*copy, folder_.Path());
  ExpectEqualParameters(*model, *copy);
}

TEST_F(PretrainedTest, ConvertsHalfPrecisionWeights) {
  const auto model = MakeModel(kMlp);
  NamedTensors tensors = TensorsOf(*model);
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kBFloat16);
  WriteSafetensors(folder_.Path("model.safetensors"), tensors);
  const auto copy = MakeModel(kMlp);
  LoadWeights(*copy, folder_.Path());
  EXPECT_EQ(copy->parameters()[0].scalar_type(), at::kFloat);
  EXPECT_TRUE(copy->parameters()[0].equal(tensors[0].second.to(at::kFloat)));
}

TEST_F(PretrainedTest, NamesAllTensorsThatDoNotFitAndChangesNothing) {
  const std::string path = folder_.Path("w.safetensors");
  WriteSafetensors(path, {{"layers.0.weight", at::zeros({3, 5})},
                          {"layers.0.bias", at::zeros({3}, at::kLong)},
                          {"layers.1.weight", at::zeros({2, 3})},
                          {"head.weight", at::zeros({2, 3})}});
  const auto model = MakeModel(kMlp);
  const at::Tensor before = model->parameters()[2].detach().clone();
  EXPECT_THAT(
      Complaint(*model, path),
      AllOf(HasSubstr("Missing (1): layers.1.bias"), HasSubstr("Not in the model (1): head.weight"),
            HasSubstr("layers.0.weight is [3, 5] in the file and [3, 4] in the model"),
            HasSubstr("layers.0.bias"), Not(HasSubstr("layers.1.weight"))));
  EXPECT_TRUE(model->parameters()[2].equal(before));
}

TEST_F(PretrainedTest, RefusesFoldersItCannotUse) {
  const auto complaint = [&](const std::string& config) {
    folder_.Write("config.json", config);
    try {
      ReadModelOptions(folder_.Path());
    } catch (const Failure& failure) {
      return failure.error().what;
    }
    return std::string("no complaint");
  };
  EXPECT_THROW(ReadModelOptions(folder_.Path("none")), Failure);
  EXPECT_THAT(complaint("{"), HasSubstr("no JSON object"));
  EXPECT_THAT(complaint(R"({"model_type":"bloom"})"), HasSubstr("\"bloom\""));
  EXPECT_THAT(complaint(R"({"model_type":"gpt2","n_layer":"two"})"), HasSubstr("n_layer"));
  EXPECT_THAT(complaint(R"({"model_type":"gpt2","activation_function":"relu"})"),
              HasSubstr("activation_function"));
  EXPECT_THAT(complaint(R"({"model_type":"mlp"})"), HasSubstr("layer_sizes"));
}

}  // namespace
}  // namespace ddprun::trainer
