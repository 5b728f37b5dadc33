// Models on a simulated device: made, saved, loaded, generating; and the state of a run.
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/trainer/device/products.h"
#include "tests/trainer/device/thrown.h"
#include "tests/trainer/device/train_on.h"
#include "tests/trainer/load_state.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"
#include "trainer/data/batch_mover.h"
#include "trainer/models/generate.h"
#include "trainer/models/pretrained.h"
#include "trainer/parallel/tensor_parallel.h"
#include "trainer/strategies/single.h"

namespace ddprun::trainer {
namespace {

using simulated::DeviceAt;
using testing::IsEmpty;

std::shared_ptr<Model> Made(const std::string& type, c10::Device device, bool initialize = true) {
  SeedGenerators(device, 3);
  return MakeModel(SmallModels().at(type), {}, initialize, device);
}

void ExpectSameState(const Model& found, const Model& expected) {
  const auto state = expected.State();
  for (const auto& item : found.State()) {
    EXPECT_TRUE(item.value().cpu().equal(state[item.key()].cpu())) << item.key();
  }
}

TEST(DeviceModel, StartsWithTheSameWeightsOnAnyDevice) {
  for (const char* type : {"mlp", "cnn", "resnet18", "bert", "gpt", "llama"}) {
    const auto model = Made(type, DeviceAt(1));
    for (const auto& item : model->State()) EXPECT_EQ(item.value().device(), DeviceAt(1));
    ExpectSameState(*model, *Made(type, at::kCPU));
  }
}

TEST(DeviceModel, KeepsTiedWeightsOne) {
  TransformerOptions sizes{.vocab_size = 20, .hidden_size = 16, .num_attention_heads = 2};
  GptOptions options{sizes};
  options.tie_word_embeddings = true;
  const auto tied = MakeModel(options, {}, true, DeviceAt(0));
  EXPECT_EQ(tied->parameters().size(), MakeModel(options)->parameters().size());
}

TEST(DeviceModel, IsSavedAndLoadedOnAnyDevice) {
  const std::string folder = testing::TempDir() + "/device_model_" + std::to_string(::getpid());
  const auto model = Made("gpt", DeviceAt(0));
  SavePretrained(*model, folder);
  for (const c10::Device device : {c10::Device(at::kCPU), DeviceAt(1)}) {
    const auto copy = Made("gpt", device, /*initialize=*/false);
    LoadWeights(*copy, folder);
    ExpectSameState(*copy, *model);
  }
  std::filesystem::remove_all(folder);
}

// On a device several layers of one input are one product.
TEST(DeviceModel, AddsTheMatricesOfLora) {
  const PrecisionScope scope(Precision::kBf16);
  for (const char* type : {"bert", "llama"}) {
    const std::vector<int64_t> rows = {0, 1, 2, 3};
    const auto loss = [&](c10::Device device, int64_t r) {
      UseDevice(device);
      ModelOptions options = SmallModels().at(type);
      TransformerIn(options)->lora = {.r = r, .alpha = 8.0, .target_modules = {"all-linear"}};
      SeedGenerators(device, 3);
      const auto model = MakeModel(options, {}, true, device);
      const at::NoGradGuard no_grad;
      for (auto& item : model->named_parameters()) {
        if (item.key().ends_with("lora_B.weight")) {
          item.value().copy_(Random(item.value().sizes(), 7));
        }
      }
      const at::AutoGradMode gradients(true);
      const at::Tensor found = model->Loss(BatchMover(device).Move(SmallData(type).Get(rows)));
      found.backward();
      for (const auto& item : model->named_parameters()) {
        EXPECT_EQ(item.value().grad().defined(), item.value().requires_grad()) << item.key();
      }
      return found.item<double>();
    };
    EXPECT_NEAR(loss(DeviceAt(0), 4), loss(at::kCPU, 4), 1e-2) << type;
    EXPECT_GT(std::abs(loss(DeviceAt(0), 4) - loss(DeviceAt(0), 0)), 2e-2) << type;
  }
}

// A device adds a mask to the scores; the CPU computes each text alone.
TEST(DeviceModel, AttendsToEachTextOfARowAlone) {
  for (const char* type : {"gpt", "llama"}) {
    const auto loss = [&](c10::Device device, bool several) {
      const std::vector<int64_t> rows = {0, 1};
      Batch batch = SmallData(type).Get(rows);
      batch.attention_mask = at::ones_like(batch.inputs);
      if (several) batch.attention_mask.narrow(1, 5, 4).fill_(2);
      batch.attention_mask.narrow(1, batch.inputs.size(1) - 2, 2).zero_();
      const at::Tensor found = Made(type, device)->Loss(BatchMover(device).Move(std::move(batch)));
      found.backward();
      return found.item<double>();
    };
    EXPECT_NEAR(loss(DeviceAt(0), true), loss(at::kCPU, true), 1e-5) << type;
    EXPECT_GT(std::abs(loss(DeviceAt(0), true) - loss(DeviceAt(0), false)), 1e-4) << type;
  }
}

TEST(DeviceModel, GeneratesTheTokensOfTheCpu) {
  for (const char* type : {"gpt", "llama"}) {
    const auto tokens = [&](c10::Device device) {
      const auto model = std::dynamic_pointer_cast<LanguageModel>(Made(type, device));
      return GenerateTokens(*model, std::vector<int64_t>{1, 2, 3}, 14, {.seed = 5});
    };
    EXPECT_EQ(tokens(DeviceAt(0)), tokens(at::kCPU)) << type;
  }
}

// The device's kernels would not see it.
// The vocabulary has an odd size.
TEST(DeviceModel, MultipliesScoresWithAlignedRows) {
  const auto options = at::device(DeviceAt()).dtype(at::kFloat);
  const at::Tensor hidden = at::ones({6, 16}, options).requires_grad_();
  const at::Tensor weight = at::ones({21, 16}, options).requires_grad_();
  const at::Tensor targets = at::ones({6}, options.dtype(at::kLong));
  const PrecisionScope precision(Precision::kBf16);
  simulated::TakeProducts();
  LinearCrossEntropy(hidden, weight, targets);
  const simulated::Products products = simulated::TakeProducts();
  EXPECT_THAT(products.unaligned, IsEmpty());
  EXPECT_EQ(products.aligned, 3);
}

// 256 MiB hold all 400 rows of scores, 32 MiB 333 of them.
TEST(DeviceModel, ComputesTheScoresOfADividedVocabularyInOnePiece) {
  constexpr int64_t kClasses = 50257;
  const auto group = c10::make_intrusive<simulated::SimulatedProcessGroup>(
      std::make_shared<simulated::Meeting>(1), 0, 0);
  const auto axis = MakeTensorAxis({.group = group, .host = group});
  const auto options = at::device(DeviceAt()).dtype(at::kFloat);
  const at::Tensor hidden = at::ones({400, 16}, options).requires_grad_();
  const at::Tensor weight = at::ones({kClasses, 16}, options).requires_grad_();
  const at::Tensor targets = at::ones({400}, options.dtype(at::kLong));
  const PrecisionScope precision(Precision::kBf16);
  simulated::TakeProducts();
  const at::Tensor loss = axis->LinearCrossEntropy(hidden, weight, kClasses, targets, 0);
  EXPECT_EQ(simulated::TakeProducts().aligned, 3);
  loss.backward();
  EXPECT_NEAR(loss.item<float>(), std::log(kClasses), 1e-3);
  group->shutdown();
  EXPECT_EQ(simulated::TakeGroupFaults(), "");
}

TEST(DeviceModel, AddsABiasInTheKernelOfItsProduct) {
  const auto options = at::device(DeviceAt()).dtype(at::kFloat);
  const PrecisionScope precision(Precision::kBf16);
  simulated::TakeProducts();
  LinearLayer(at::ones({6, 16}, options), at::ones({8, 16}, options), at::ones({8}, options));
  EXPECT_EQ(simulated::TakeProducts().with_vector, 1);
}

TEST(DeviceModel, RefusesATargetOutOfRangeWithTheTextOfTheCpu) {
  for (const char* type : {"bert", "gpt", "llama", "mlp"}) {
    const auto text = [&](c10::Device device) {
      const c10::DeviceGuard guard(device.is_cpu() ? DeviceAt(0) : device);
      Batch batch = SmallData(type).Get(std::vector<int64_t>{0, 1});
      batch.targets.view(-1)[-1] = 77;
      batch = BatchMover(device).Move(std::move(batch));
      const std::string thrown =
          simulated::Thrown([&] { Made(type, device)->Loss(batch).item<float>(); });
      return thrown.substr(0, thrown.find("\nException"));  // before a call stack
    };
    EXPECT_THAT(text(DeviceAt(1)), testing::HasSubstr("77"));
    EXPECT_EQ(text(DeviceAt(1)), text(at::kCPU)) << type;
  }
}

// A model and its optimizer, which take the same step again and again.
class OneRank {
 public:
  explicit OneRank(c10::Device device) : device_(device), model_(Made("mlp", device)) {
    ParameterGroup group;
    for (const auto& item : model_->named_parameters()) {
      group.parameters.push_back(item.value());
      group.names.push_back(item.key());
    }
    strategy_ = MakeSingle(model_, MakeOptimizer({}, {group}));
  }

  void Step() {
    Batch batch = SmallData("mlp").Get(std::vector<int64_t>{0, 1, 2, 3});
    batch.inputs = batch.inputs.to(device_);
    batch.targets = batch.targets.to(device_);
    strategy_->ForwardBackward(
        {.learning_rate = 0.1,
         .micro_batches = {&batch, 1},
         .loss = [](Model& model, const Batch& one, size_t) { return model.Loss(one); }});
    strategy_->Step();
  }
  Strategy& strategy() { return *strategy_; }
  const Model& model() const { return *model_; }

 private:
  const c10::Device device_;
  const std::shared_ptr<Model> model_;
  std::unique_ptr<Strategy> strategy_;
};

TEST(DeviceState, GoesOnOnAnotherDeviceWithTheSameBits) {
  for (const auto& [from, to] : {std::pair{c10::Device(at::kCPU), DeviceAt(0)},
                                 std::pair{DeviceAt(0), c10::Device(at::kCPU)}}) {
    OneRank first(from);
    first.Step();
    first.Step();
    const StateDict state = CopyOf(first.strategy().State());
    OneRank second(to);
    LoadState(state, NamesOf(second.strategy()));
    first.Step();
    second.Step();
    ExpectSameState(second.model(), first.model());
  }
}

}  // namespace
}  // namespace ddprun::trainer
