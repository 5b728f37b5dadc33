#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include <ddprun/optimizer.h>
#include "tests/golden/golden_file.h"
#include "tests/trainer/load_state.h"

namespace ddprun::trainer {
namespace {

using nlohmann::json;
using testing::SizeIs;
using Kind = OptimizerType;

struct Setting {
  OptimizerOptions options;
  double weight_decay = 0;
};

// As in make_optimizers() of scripts/make_golden.py.
const std::map<std::string, Setting>& Settings() {
  static const std::map<std::string, Setting> settings = {
      {"adamw", {{.kind = Kind::kAdamW, .betas = {0.9, 0.95}}, 0.1}},
      {"adam", {{.kind = Kind::kAdam, .betas = {0.9, 0.999}}, 0.1}},
      {"sgd", {{.kind = Kind::kSgd}, 0.0}},
      {"sgd_decay", {{.kind = Kind::kSgd}, 0.1}},
      {"sgd_momentum", {{.kind = Kind::kSgd, .momentum = 0.9, .dampening = 0.1}, 0.1}},
      {"sgd_nesterov", {{.kind = Kind::kSgd, .momentum = 0.9, .nesterov = true}, 0.0}},
      {"adagrad", {{.kind = Kind::kAdagrad, .eps = 1e-10}, 0.0}},
      {"adagrad_decay", {{.kind = Kind::kAdagrad, .eps = 1e-6}, 0.1}},
      {"lion", {{.kind = Kind::kLion, .betas = {0.9, 0.99}}, 0.0}},
      {"lion_decay", {{.kind = Kind::kLion, .betas = {0.95, 0.98}}, 0.1}}};
  return settings;
}

// Expects the state of every parameter to equal that in torch.optim's state_dict.
void ExpectState(Optimizer& optimizer, const json& golden_case) {
  StateDict state = SaveState([&](StateVisitor& visitor) { optimizer.NameState(visitor); });
  for (size_t i = 0; i < golden_case.at("state").size(); ++i) {
    const std::string prefix = std::string("p").append(std::to_string(i)).append(".");
    for (const auto& [key, value] : golden_case.at("state").at(i).items()) {
      if (key == "step") {
        EXPECT_EQ(state.numbers.at(prefix + key), value.get<double>()) << prefix;
        continue;
      }
      const auto is_it = [&](const StateTensor& tensor) { return tensor.name == prefix + key; };
      const auto found = std::ranges::find_if(state.tensors, is_it);
      ASSERT_NE(found, state.tensors.end()) << prefix << key;
      EXPECT_TRUE(found->tensor.allclose(golden::FloatTensor(value), 1e-6, 1e-6)) << prefix << key;
      state.tensors.erase(found);
    }
  }
  EXPECT_THAT(state.tensors, SizeIs(0)) << golden_case.at("name");
}

void ExpectTrajectory(const json& golden, const json& golden_case) {
  const std::string name = golden_case.at("name");
  const Setting& setting = Settings().at(name);
  std::vector<at::Tensor> parameters;
  for (const json& value : golden.at("initial")) {
    parameters.push_back(golden::FloatTensor(value).requires_grad_());
  }
  const auto optimizer =
      MakeOptimizer(setting.options, {{{parameters[0]}, setting.weight_decay, {"p0"}},
                                      {{parameters[1], parameters[2]}, 0, {"p1", "p2"}}});
  for (size_t step = 0; step < golden.at("gradients").size(); ++step) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const json& gradient = golden.at("gradients").at(step).at(i);
      parameters[i].mutable_grad() =
          gradient.is_null() ? at::Tensor() : golden::FloatTensor(gradient);
    }
    optimizer->Step(golden.at("learning_rates").at(step).get<double>());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor expected = golden::FloatTensor(golden_case.at("after").at(step).at(i));
      EXPECT_TRUE(parameters[i].allclose(expected, /*rtol=*/1e-6, /*atol=*/1e-6))
          << name << ", step " << step << ", parameter " << i << "\n"
          << parameters[i] << "\nexpected\n"
          << expected;
    }
  }
  ExpectState(*optimizer, golden_case);
}

// Parameters with a gradient each, and what `step` makes of them in three steps.
template <typename StepAll>
std::vector<at::Tensor> Stepped(const OptimizerOptions& options, const StepAll& step) {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 4; ++i) {
    parameters.push_back(at::linspace(-1, 1 + i, 37).requires_grad_());
    parameters[static_cast<size_t>(i)].mutable_grad() = at::linspace(1, -i, 37);
  }
  const auto optimizer = MakeOptimizer(
      options, {{{parameters[0], parameters[2]}, 0.1}, {{parameters[1], parameters[3]}, 0}});
  for (int i = 0; i < 3; ++i) step(*optimizer, parameters);
  return parameters;
}

TEST(Optimizer, MakesTheSameStepInParts) {
  for (const auto& [name, setting] : Settings()) {
    const auto whole =
        Stepped(setting.options, [](Optimizer& optimizer, const auto&) { optimizer.Step(0.01); });
    const auto parts = Stepped(setting.options, [](Optimizer& optimizer, const auto& parameters) {
      optimizer.Step(0.01, std::span(parameters).subspan(1));
      optimizer.Step(0.01, {});
      optimizer.Step(0.01, std::span(parameters).first(1));
    });
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(at::equal(whole[i], parts[i])) << name << ", parameter " << i;
    }
  }
}

TEST(Optimizer, AGroupHasItsOwnLearningRate) {
  for (const auto& [name, setting] : Settings()) {
    for (const DeviceScalar& rate : {DeviceScalar(0.25), DeviceScalar(at::tensor(0.25))}) {
      std::vector<at::Tensor> parameters;
      for (int i = 0; i < 2; ++i) {
        parameters.push_back(at::linspace(-1, 1, 37).requires_grad_());
        parameters.back().mutable_grad() = at::linspace(1, -2, 37);
      }
      const auto fast = MakeOptimizer(setting.options,
                                      {{.parameters = {parameters[0]}, .learning_rate_factor = 4}});
      const auto plain = MakeOptimizer(setting.options, {{.parameters = {parameters[1]}}});
      for (int step = 0; step < 3; ++step) {
        if (step == 1) fast->Step(rate, std::span(parameters).first(1));
        if (step != 1) fast->Step(rate);
        plain->Step(1.0);
      }
      EXPECT_TRUE(at::equal(parameters[0], parameters[1])) << name;
    }
  }
}

TEST(Optimizer, AveragesParametersAfterTheStep) {
  for (const auto& [name, setting] : Settings()) {
    at::Tensor expected;
    const auto parameters = Stepped(setting.options, [&](Optimizer& optimizer, const auto& all) {
      const at::Tensor& first = all[0];
      if (!expected.defined()) optimizer.KeepAverages(0.75);
      // The average of a parameter does not depend on how a step is divided.
      optimizer.Step(0.01, std::span(all).subspan(1));
      optimizer.Step(0.01, std::span(all).first(1));
      const at::Tensor trained = first.detach().clone();
      expected = expected.defined() ? expected.lerp(trained, 0.25) : trained;
      optimizer.SwapAverages();
      EXPECT_TRUE(at::equal(first, expected)) << name;
      optimizer.SwapAverages(std::span(all).subspan(1));
      optimizer.SwapAverages(std::span(all).first(1));
      EXPECT_TRUE(at::equal(first, trained)) << name;
    });
    const auto without =
        Stepped(setting.options, [](Optimizer& optimizer, const auto&) { optimizer.Step(0.01); });
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(at::equal(parameters[i], without[i])) << name << ", parameter " << i;
    }
  }
}

TEST(Optimizer, SwapsNothingBeforeTheFirstStep) {
  const at::Tensor parameter = golden::FloatTensor({1.0, 2.0}).requires_grad_();
  const auto optimizer = MakeOptimizer({}, {{{parameter}, 0.0, {"p"}}});
  optimizer->KeepAverages(0.9);
  optimizer->SwapAverages();
  EXPECT_TRUE(at::equal(parameter, golden::FloatTensor({1.0, 2.0})));
  EXPECT_THAT(SaveState(NamesOf(*optimizer)).tensors, SizeIs(0));
}

TEST(Optimizer, EqualsTorchOptimStepForStep) {
  const json golden = golden::Read("optimizers.json");
  ASSERT_THAT(golden.at("cases"), SizeIs(Settings().size()));
  for (const json& golden_case : golden.at("cases")) ExpectTrajectory(golden, golden_case);
}

TEST(Optimizer, LosesStateThatWhatIsLoadedLacks) {
  for (const auto& [name, setting] : Settings()) {
    const at::Tensor parameter = golden::FloatTensor({1.0, 2.0}).requires_grad_();
    const auto optimizer = MakeOptimizer(setting.options, {{{parameter}, 0.0, {"p"}}});
    const VisitState owner = NamesOf(*optimizer);
    const StateDict none = CopyOf(SaveState(owner));
    EXPECT_THAT(none.tensors, SizeIs(0)) << name;
    parameter.mutable_grad() = golden::FloatTensor({3.0, 4.0});
    optimizer->Step(0.1);
    const at::Tensor after_first = parameter.detach().clone();
    LoadState(none, owner);
    EXPECT_THAT(SaveState(owner).tensors, SizeIs(0)) << name;
    const at::NoGradGuard no_grad;
    parameter.copy_(golden::FloatTensor({1.0, 2.0}));
    optimizer->Step(0.1);
    EXPECT_TRUE(at::equal(parameter, after_first)) << name;
  }
}

TEST(GroupByDecay, SparesParametersByAPartOfTheirName) {
  const at::Tensor weight = golden::FloatTensor({1.0});
  const at::Tensor bias = golden::FloatTensor({2.0});
  const at::Tensor norm = golden::FloatTensor({3.0});
  const auto groups = GroupByDecay(
      {{"h.0.ln_1.weight", norm}, {"fc.weight", weight}, {"fc.bias", bias}}, {"bias", "ln_"}, 0.1);
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].weight_decay, 0.1);
  ASSERT_THAT(groups[0].parameters, SizeIs(1));
  EXPECT_TRUE(groups[0].parameters[0].is_same(weight));
  EXPECT_EQ(groups[1].weight_decay, 0.0);
  ASSERT_THAT(groups[1].parameters, SizeIs(2));
  EXPECT_TRUE(groups[1].parameters[1].is_same(bias));
}

TEST(GroupByDecay, FindsNamesInLettersOfEitherCase) {
  const at::Tensor norm = golden::FloatTensor({1.0});
  for (const char* pattern : {"norm", "LayerNorm", "NORM.weight"}) {
    const auto groups = GroupByDecay({{"bert.embeddings.LayerNorm.weight", norm}}, {pattern}, 0.1);
    ASSERT_THAT(groups, SizeIs(1));
    EXPECT_EQ(groups[0].weight_decay, 0.0) << pattern;
  }
}

TEST(GroupByDecay, TakesWholeWordsOfNames) {
  const at::Tensor parameter = golden::FloatTensor({1.0});
  const auto spares = [&](const std::string& pattern, const std::string& name) {
    return GroupByDecay({{name, parameter}}, {pattern}, 0.1)[0].weight_decay == 0.0;
  };
  EXPECT_TRUE(spares("bn", "layer1.0.bn1.weight"));
  EXPECT_TRUE(spares("ln_", "transformer.ln_f.weight"));
  EXPECT_TRUE(spares("norm", "encoder.q_norm.weight"));
  EXPECT_TRUE(spares("norm", "blocks.0.norm2.weight"));
  EXPECT_TRUE(spares("layernorm", "bert.embeddings.LayerNorm.weight"));
  EXPECT_TRUE(spares("layernorm", "layers.0.input_layernorm.weight"));
  EXPECT_TRUE(spares("bias", "attn.in_proj_bias"));
  EXPECT_TRUE(spares("downsample.1.", "layer2.0.downsample.1.weight"));
  EXPECT_FALSE(spares("downsample.1", "layer2.0.downsample.10.weight"));
  EXPECT_FALSE(spares("bn", "subnet.weight"));
  EXPECT_FALSE(spares("norm", "normal_head.weight"));
  EXPECT_FALSE(spares("ln", "vulnerability.weight"));
  EXPECT_FALSE(spares("bias", "unbiased.weight"));
  EXPECT_FALSE(spares("", "fc.weight"));
}

TEST(GroupByDecay, LeavesAnEmptyGroupOut) {
  EXPECT_THAT(GroupByDecay({{"fc.weight", golden::FloatTensor({1.0})}}, {"bias"}, 0.1), SizeIs(1));
}

}  // namespace
}  // namespace ddprun::trainer
