#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/failure.h"
#include "tests/golden/golden_file.h"
#include "tests/trainer/models/small_models.h"
#include "trainer/data/text_dataset.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr TransformerOptions kSizes{.vocab_size = 50,
                                    .max_position_embeddings = 16,
                                    .hidden_size = 64,
                                    .num_hidden_layers = 8,
                                    .num_attention_heads = 4};

std::shared_ptr<LanguageModel> SmallGpt(double dropout = 0) {
  GptOptions options{kSizes};
  options.dropout = dropout;
  auto model = MakeGpt(options);
  model->Initialize();
  return model;
}

double Deviation(const Model& model, const std::string& name) {
  return model.named_parameters()[name].std().item<double>();
}

TEST(Mlp, DrawsTheWeightsThatTorchDrawsFromTheSameSeed) {
  const json golden = golden::Read("mlp_init.json");
  for (const json& golden_case : golden.at("cases")) {
    at::manual_seed(golden_case.at("seed"));
    const auto model = MakeModel(MlpOptions{.sizes = golden_case.at("sizes")});
    const auto parameters = model->named_parameters();
    for (size_t i = 0; i < golden_case.at("layers").size(); ++i) {
      const json& layer = golden_case.at("layers").at(i);
      const std::string name = "layers." + std::to_string(i);
      EXPECT_TRUE(parameters[name + ".weight"].equal(golden::FloatTensor(layer.at("weight"))));
      EXPECT_TRUE(parameters[name + ".bias"].equal(golden::FloatTensor(layer.at("bias"))));
    }
  }
}

// Validation losses and perplexity use the plain targets.
TEST(LabelSmoothing, IsForTrainingOnly) {
  const at::Tensor tokens = at::arange(16).view({2, 8});
  const at::Tensor classes = at::arange(2);
  const Batch texts{.inputs = tokens, .targets = tokens, .samples = 2, .predictions = 16};
  const Batch pairs{.inputs = tokens, .targets = classes, .samples = 2, .predictions = 2};
  const Batch numbers{
      .inputs = at::ones({2, 48}), .targets = classes, .samples = 2, .predictions = 2};
  for (const auto& [type, batch] : {std::pair("gpt", texts), std::pair("llama", texts),
                                    std::pair("bert", pairs), std::pair("mlp", numbers)}) {
    const auto make = [type = type](double smoothing) {
      at::manual_seed(1);
      return MakeModel(SmallModels().at(type), {.label_smoothing = smoothing});
    };
    const auto plain = make(0);
    const auto smooth = make(0.5);
    const double loss = plain->Loss(batch).item<double>();
    EXPECT_GT(std::abs(smooth->Loss(batch).item<double>() - loss), 1e-4) << type;
    smooth->eval();
    EXPECT_NEAR(smooth->Loss(batch).item<double>(), loss, 1e-5) << type;
    EXPECT_NEAR(smooth->LossFrom(smooth->Outputs(batch), batch).item<double>(), loss, 1e-5) << type;
  }
}

TEST(Mlp, DrawsNothingWhenNotInitialized) {
  at::manual_seed(1);
  const auto with = MakeModel(MlpOptions{.sizes = {3, 2}});
  at::manual_seed(1);
  MakeModel(MlpOptions{.sizes = {30, 20}}, {}, /*initialize=*/false);
  const auto after = MakeModel(MlpOptions{.sizes = {3, 2}});
  EXPECT_TRUE(after->parameters()[0].equal(with->parameters()[0]));
}

TEST(Mlp, AppliesTheActivationBetweenTheLayersOnly) {
  for (const auto& [activation, expected] :
       {std::pair(Activation::kNone, 1.0), std::pair(Activation::kRelu, 4.0)}) {
    const auto model = MakeMlp({.sizes = {1, 1, 1}, .activation = activation});
    const auto parameters = model->parameters();
    const double values[] = {-1.0, 0.0, 1.0, -2.0};  // -x, then h - 2
    for (size_t i = 0; i < 4; ++i) parameters[i].detach().fill_(values[i]);
    // x = 1: h = -1 or 0; y = -3 or -2; target -2 or -4 away
    const double target = activation == Activation::kNone ? -2.0 : 0.0;
    const Batch batch{.inputs = golden::FloatTensor({{1.0}}),
                      .targets = golden::FloatTensor({{target}}),
                      .samples = 1,
                      .predictions = 1};
    EXPECT_DOUBLE_EQ(model->Loss(batch).item<double>(), expected);
  }
}

TEST(Gpt, GivesTheLogitsOfTransformers) {
  const json golden = golden::Read("gpt_losses.json");
  const auto model = MakeModel(ReadModelOptions(golden::Path("gpt_init")));
  LoadWeights(*model, golden::Path("gpt_init"));
  const TextDataset text({.files = {golden::Path("text.txt")}, .sequence_length = 32});
  const Batch batch = text.Get(std::vector<int64_t>{0});
  const at::Tensor logits =
      dynamic_cast<LanguageModel&>(*model).Logits(batch.inputs).select(0, 0).select(0, -1);
  EXPECT_TRUE(logits.allclose(golden::FloatTensor(golden.at("logits_after_sample_0")), /*rtol=*/0,
                              /*atol=*/2e-6));
}

TEST(Gpt, NamesItsParametersAsTransformersDoes) {
  const auto model = SmallGpt();
  const auto names = model->named_parameters().keys();
  EXPECT_EQ(names.front(), "transformer.wte.weight");
  EXPECT_EQ(names.back(), "transformer.ln_f.bias");
  EXPECT_THAT(names, Contains("transformer.h.7.attn.c_attn.weight"));
  EXPECT_THAT(model->named_parameters()["transformer.h.0.attn.c_attn.weight"].sizes(),
              ElementsAre(64, 192));
  EXPECT_EQ(names.size(), 2 + 8 * 12 + 2);
}

TEST(Gpt, StartsWithTheDeviationsOfTransformers) {
  at::manual_seed(0);
  const auto model = SmallGpt();
  EXPECT_NEAR(Deviation(*model, "transformer.wte.weight"), 0.02, 0.001);
  EXPECT_NEAR(Deviation(*model, "transformer.h.3.mlp.c_fc.weight"), 0.02, 0.001);
  EXPECT_NEAR(Deviation(*model, "transformer.h.3.mlp.c_proj.weight"), 0.02 / 4, 0.0003);
  EXPECT_NEAR(Deviation(*model, "transformer.h.3.attn.c_proj.weight"), 0.02 / 4, 0.0003);
  // Untrained, it knows nothing.
  const Batch batch{.inputs = at::zeros({2, 16}, at::kLong),
                    .targets = at::ones({2, 16}, at::kLong),
                    .samples = 2,
                    .predictions = 32};
  EXPECT_NEAR(model->Loss(batch).item<double>(), std::log(50.0), 0.3);
}

TEST(Gpt, GivesEveryParameterAGradient) {
  const auto model = SmallGpt();
  const Batch batch{.inputs = at::zeros({2, 16}, at::kLong),
                    .targets = at::ones({2, 16}, at::kLong),
                    .samples = 2,
                    .predictions = 32};
  model->Loss(batch).backward();
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
  }
}

TEST(Gpt, SeesNoLaterToken) {
  const auto model = SmallGpt();
  const at::Tensor inputs = at::zeros({1, 16}, at::kLong);
  const at::Tensor before = model->Logits(inputs);
  inputs.select(1, 9).fill_(7);
  const at::Tensor after = model->Logits(inputs);
  EXPECT_TRUE(after.narrow(1, 0, 9).allclose(before.narrow(1, 0, 9), 0, 1e-6));
  EXPECT_FALSE(after.narrow(1, 9, 7).allclose(before.narrow(1, 9, 7), 0, 1e-6));
}

TEST(Gpt, DropsOutOnlyWhileTraining) {
  const auto model = SmallGpt(0.5);
  const at::Tensor inputs = at::zeros({1, 16}, at::kLong);
  model->train();
  EXPECT_FALSE(model->Logits(inputs).equal(model->Logits(inputs)));
  model->eval();
  EXPECT_TRUE(model->Logits(inputs).equal(model->Logits(inputs)));
}

TEST(Gpt, RefusesALongerSequenceThanItHasPositionsFor) {
  EXPECT_THROW(SmallGpt()->Logits(at::zeros({1, 17}, at::kLong)), Failure);
}

TEST(MakeModel, BuildsByTheTypeOfOptions) {
  EXPECT_EQ(ParameterCount(*MakeModel(MlpOptions{.sizes = {10, 10, 5}})), 165);
  EXPECT_NE(dynamic_cast<LanguageModel*>(MakeModel(GptOptions()).get()), nullptr);
}

Error ErrorOfMaking(const ModelOptions& options) {
  try {
    MakeModel(options);
  } catch (const Failure& failure) {
    return failure.error();
  }
  return {};
}

TEST(MakeModel, RefusesSizesThatDoNotFit) {
  EXPECT_THAT(ErrorOfMaking(GptOptions{{.hidden_size = 30, .num_attention_heads = 4}}).what,
              HasSubstr("hidden_size 30"));
  EXPECT_EQ(ErrorOfMaking(GptOptions{{.num_hidden_layers = 0}}).title, "WRONG MODEL SIZE");
  EXPECT_THAT(ErrorOfMaking(MlpOptions{.sizes = {10}}).what, HasSubstr("[10]"));
  EXPECT_THAT(ErrorOfMaking(MlpOptions{.sizes = {10, -1}}).what, HasSubstr("[10, -1]"));
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

Shapes ShapesOf(const Model& model) {
  Shapes shapes;
  for (const auto& item : model.State()) shapes[item.key()] = item.value().sizes().vec();
  return shapes;
}

TEST(ModelShape, HasTheTensorsOfTheModelWithoutTheirMemory) {
  EXPECT_EQ(MakeModelShape(PluginOptions{.path = "nowhere"}), nullptr);
  for (const auto& [type, options] : SmallModels()) {
    const auto shape = MakeModelShape(options);
    const auto model = MakeModel(options);
    EXPECT_EQ(ShapesOf(*shape), ShapesOf(*model)) << type;
    EXPECT_EQ(StateBytes(*shape), StateBytes(*model)) << type;
    EXPECT_TRUE(shape->parameters().front().is_meta());
    EXPECT_TRUE(model->parameters().front().is_cpu());
  }
}

TEST(ModelShape, RefusesSizesThatOverflow) {
  const int64_t most = int64_t{1} << 30;
  EXPECT_THROW(MakeModelShape(GptOptions{{.hidden_size = most, .num_attention_heads = 1}}),
               Failure);
  EXPECT_THROW(MakeModelShape(CnnOptions{.image = {most, 32, 32}, .channels = {most}}), Failure);
}

}  // namespace
}  // namespace ddprun::trainer
