// One process on several devices: the losses and weights of one device.
#include "trainer/strategies/one_process.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "tests/base/sanitized.h"
#include "tests/trainer/models/small_models.h"
#include "tests/trainer/strategies/strategy_fixture.h"
#include "trainer/compute/device.h"
#include "trainer/compute/precision.h"
#include "trainer/strategies/single.h"

namespace ddprun::trainer::one_process {
namespace {

using testing::ElementsAre;

constexpr int kSteps = 4;
constexpr double kRate = 0.05;

std::vector<c10::Device> Devices(size_t count) {
  return std::vector<c10::Device>(count, at::kCPU);
}

// Texts end in padding. Later samples have fewer token targets.
Batch BatchFor(const std::string& model, int64_t size, at::ScalarType type, uint64_t seed) {
  const auto below = [&](int64_t limit, at::IntArrayRef sizes) {
    return Random(sizes, seed).abs().mul(100).to(at::kLong).remainder(limit);
  };
  const bool tokens = model == "gpt" || model == "llama";
  Batch batch;
  batch.samples = size;
  batch.inputs = tokens || model == "bert" ? below(20, {size, 12})
                 : model == "mlp"          ? Random({size, 48}, seed).to(type)
                                           : Random({size, 3, 32, 32}, seed).to(type);
  batch.targets = tokens ? below(20, {size, 12}) : below(3, {size});
  if (tokens) {
    for (int64_t i = 0; i < size; ++i) batch.targets[i].narrow(0, 0, i).fill_(-100);
  }
  if (model == "bert") {
    batch.attention_mask = at::ones_like(batch.inputs);
    for (int64_t i = 0; i < size; ++i) batch.attention_mask[i].narrow(0, 12 - i, i).zero_();
  }
  batch.predictions = batch.targets.ne(-100).sum().item<int64_t>();
  return batch;
}

struct Case {
  std::string model = "mlp";
  size_t devices = 0;  // 0: MakeSingle
  DpLoss loss = DpLoss::kGathered;
  size_t output_device = 0;
  at::ScalarType type = at::kFloat;
  double dropout = 0;
  bool recompute = false;
  std::vector<int64_t> batches = {7};  // of each step
};

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> state;
};

std::shared_ptr<Model> ModelOf(const Case& setup) {
  auto model = MakeModel(SmallModels(setup.dropout).at(setup.model));
  model->to(setup.type);
  // The scores of tokens then come out of their product, which is in float32 otherwise.
  if (setup.type == at::kDouble) model->SetLoss({.label_smoothing = 0.1});
  if (setup.recompute) RecomputeBlocks(*model);
  return model;
}

Trained Train(const Case& setup) {
  at::set_num_threads(1);  // the models are small
  SeedGenerators(at::kCPU, 5);
  const auto model = ModelOf(setup);
  ParameterGroup group;
  for (const auto& item : model->named_parameters()) {
    group.parameters.push_back(item.value());
    group.names.push_back(item.key());
  }
  auto optimizer = MakeOptimizer({.kind = OptimizerType::kSgd, .momentum = 0.9}, {group});
  const auto strategy = setup.devices == 0 ? MakeSingle(model, std::move(optimizer))
                                           : MakeDataParallel(model, std::move(optimizer),
                                                              [&](auto) { return ModelOf(setup); },
                                                              {.devices = Devices(setup.devices),
                                                               .output_device = setup.output_device,
                                                               .loss = setup.loss});
  Trained trained;
  for (uint64_t step = 0; step < kSteps; ++step) {
    std::vector<Batch> batches;
    double all = 0;
    for (const int64_t size : setup.batches) {
      batches.push_back(BatchFor(setup.model, size, setup.type, 100 * step + batches.size() + 1));
      all += static_cast<double>(batches.back().predictions);
    }
    double sum = 0;
    const auto loss = [&](Model& of, const Batch& batch, size_t i) {
      SeedGenerators(at::kCPU, 1000 * step + i);
      const PrecisionScope scope(ComputePrecision{setup.type});
      const at::Tensor mean = of.Loss(batch);
      const double share = static_cast<double>(batch.predictions) / all;
      sum += mean.item<double>() * share;
      return mean * share;
    };
    strategy->ForwardBackward({.learning_rate = kRate, .micro_batches = batches, .loss = loss});
    strategy->ClipGradients(1.0);
    strategy->Step();
    trained.losses.push_back(sum);
  }
  const StateDict state = strategy->State();
  for (const StateTensor& one : state.tensors) {
    trained.state[one.name] = one.tensor.clone();
  }
  return trained;
}

void ExpectClose(const Trained& found, const Trained& expected, double tolerance) {
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], expected.losses[i], tolerance * std::abs(expected.losses[i]))
        << "step " << i;
  }
  ASSERT_EQ(found.state.size(), expected.state.size());
  for (const auto& [name, tensor] : expected.state) {
    ASSERT_TRUE(found.state.contains(name)) << name;
    EXPECT_TRUE(at::allclose(found.state.at(name), tensor, 100 * tolerance, 100 * tolerance))
        << name;
  }
}

TEST(Scatter, CutsAsTorchChunk) {
  const auto sizes = [](int64_t size, size_t devices) {
    std::vector<int64_t> found;
    for (const Batch& part : Scatter(BatchFor("mlp", size, at::kFloat, 1), Devices(devices))) {
      EXPECT_EQ(part.targets.size(0), part.samples);
      EXPECT_EQ(part.predictions, part.samples);
      found.push_back(part.samples);
    }
    return found;
  };
  EXPECT_THAT(sizes(30, 2), ElementsAre(15, 15));
  EXPECT_THAT(sizes(10, 2), ElementsAre(5, 5));
  EXPECT_THAT(sizes(7, 2), ElementsAre(4, 3));
  EXPECT_THAT(sizes(5, 4), ElementsAre(2, 2, 1));
  EXPECT_THAT(sizes(1, 2), ElementsAre(1));
}

TEST(Scatter, CountsTheTargetsOfEachPart) {
  const std::vector<Batch> parts = Scatter(BatchFor("gpt", 4, at::kFloat, 1), Devices(2));
  EXPECT_EQ(parts[0].predictions, 12 + 11);
  EXPECT_EQ(parts[1].predictions, 10 + 9);
}

TEST(DataParallel, TrainsAsOneDeviceDoes) {
  for (const char* model : {"mlp", "bert", "gpt", "llama"}) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const double tolerance = type == at::kDouble ? 1e-10 : 1e-5;
      Case setup{.model = model, .type = type, .batches = {7, 2}};
      const Trained expected = Train(setup);
      EXPECT_NE(expected.losses.back(), expected.losses.front());
      for (const size_t devices : {1, 2, 3}) {
        for (const DpLoss loss : {DpLoss::kGathered, DpLoss::kParallel}) {
          SCOPED_TRACE(std::string(model) + " on " + std::to_string(devices) +
                       (loss == DpLoss::kParallel ? ", parallel" : ", gathered"));
          setup.devices = devices;
          setup.loss = loss;
          setup.output_device = devices - 1;
          ExpectClose(Train(setup), expected, tolerance);
        }
      }
    }
  }
}

TEST(DataParallel, DrawsFromThePlaceOfEachReplica) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    Case setup{.model = "gpt", .type = type, .dropout = 0.2, .batches = {6, 6}};
    const Trained single = Train(setup);
    setup.devices = 1;
    setup.loss = DpLoss::kParallel;
    EXPECT_EQ(Train(setup).losses, single.losses);
    setup.devices = 2;
    const Trained expected = Train(setup);
    EXPECT_NE(expected.losses, single.losses);
    for (int again = 0; again < 3; ++again) {
      setup.recompute = again == 2;  // draws the same numbers once more
      const Trained found = Train(setup);
      EXPECT_EQ(found.losses, expected.losses);
      for (const auto& [name, tensor] : expected.state) {
        EXPECT_TRUE(found.state.at(name).equal(tensor)) << name;
      }
    }
  }
}

TEST(DataParallel, KeepsTheBuffersOfTheFirstReplica) {
  Case setup{.model = "resnet18", .batches = {4}};
  SeedGenerators(at::kCPU, 5);
  const auto alone = ModelOf(setup);
  SeedGenerators(at::kCPU, 5);
  const auto model = ModelOf(setup);
  ParameterGroup group{.parameters = model->parameters()};
  const auto strategy =
      MakeDataParallel(model, MakeOptimizer({.kind = OptimizerType::kSgd}, {group}),
                       [&](auto) { return ModelOf(setup); }, {.devices = Devices(2)});
  const std::vector<Batch> batches = {BatchFor("resnet18", 4, at::kFloat, 1)};
  alone->Loss(Scatter(batches[0], Devices(2))[0]);
  strategy->ForwardBackward(
      {.micro_batches = batches,
       .loss = [](Model& of, const Batch& batch, size_t) { return of.Loss(batch); }});
  ASSERT_FALSE(alone->named_buffers().is_empty());
  for (const auto& item : alone->named_buffers()) {
    EXPECT_TRUE(at::allclose(model->named_buffers()[item.key()], item.value(), 1e-4, 1e-5))
        << item.key();
  }
}

TEST(DataParallel, EvaluatesOnAllDevicesWithTheWeightsOfNow) {
  for (const DpLoss loss : {DpLoss::kGathered, DpLoss::kParallel}) {
    const Case setup{.model = "bert", .dropout = 0.5};
    const auto model = ModelOf(setup);
    const auto strategy = MakeDataParallel(
        model, MakeOptimizer({.kind = OptimizerType::kSgd}, {{.parameters = model->parameters()}}),
        [&](auto) { return ModelOf(setup); }, {.devices = Devices(3), .loss = loss});
    const Batch batch = BatchFor("bert", 7, at::kFloat, 3);
    const at::NoGradGuard no_grad;
    model->eval();
    for (int round = 0; round < 2; ++round) {
      for (const at::Tensor& parameter : model->parameters()) parameter.mul_(0.9);
      strategy->BeforeEvaluation();
      const BatchEvaluation found = strategy->EvaluateBatch(*model, batch, true);
      EXPECT_TRUE(at::allclose(found.outputs, model->Outputs(batch), 1e-5, 1e-6));
      EXPECT_TRUE(at::allclose(found.loss, model->Loss(batch), 1e-5, 1e-6));
      EXPECT_TRUE(
          at::allclose(strategy->EvaluateBatch(*model, batch, false).loss, found.loss, 1e-5, 1e-6));
    }
  }
}

class MemoryNoted final : public Observer {
 public:
  explicit MemoryNoted(std::vector<DeviceMemoryReport>& reports) : reports_(reports) {}
  void OnDeviceMemory(const DeviceMemoryReport& report, ReportTime /*now*/) override {
    reports_.push_back(report);
  }

 private:
  std::vector<DeviceMemoryReport>& reports_;
};

TEST(DataParallel, TellsWhatEachDeviceHolds) {
  for (const DpLoss loss : {DpLoss::kGathered, DpLoss::kParallel}) {
    const Case setup{.model = "gpt"};
    const auto model = ModelOf(setup);
    ParameterGroup group{.parameters = model->parameters()};
    for (const auto& item : model->named_parameters()) group.names.push_back(item.key());
    const auto strategy =
        MakeDataParallel(model, MakeOptimizer({.kind = OptimizerType::kAdamW}, {group}),
                         [&](auto) { return ModelOf(setup); },
                         {.devices = Devices(2), .output_device = 1, .loss = loss});
    const std::vector<Batch> batches = {BatchFor("gpt", 7, at::kFloat, 1)};
    strategy->ForwardBackward(
        {.micro_batches = batches,
         .loss = [](Model& of, const Batch& batch, size_t) { return of.Loss(batch); }});
    strategy->Step();
    std::vector<DeviceMemoryReport> reports;
    Observers observers;
    observers.Add(std::make_unique<MemoryNoted>(reports));
    strategy->Report(observers, 1);
    strategy->Report(observers, 2);
    ASSERT_EQ(reports.size(), 1U);
    const auto& devices = reports[0].devices;
    const int64_t bytes = StateBytes(*model);
    EXPECT_EQ(devices[0].samples, 4);
    EXPECT_EQ(devices[1].samples, 3);
    EXPECT_THAT(devices[0].gathered, ElementsAre());
    const std::vector<int64_t> scores = {7, 12, 20};
    EXPECT_EQ(devices[1].gathered, loss == DpLoss::kGathered ? scores : std::vector<int64_t>{2});
    EXPECT_EQ(devices[0].model, bytes);
    EXPECT_EQ(devices[1].gradients, bytes);
    EXPECT_GE(devices[0].optimizer, 2 * bytes);
    EXPECT_EQ(devices[1].optimizer, 0);
    // 4 samples and 3; 7 with their gradients. Or the two losses.
    constexpr int64_t kScores = 12 * 20 * sizeof(float);
    const bool gathered = loss == DpLoss::kGathered;
    EXPECT_EQ(devices[0].outputs, gathered ? 4 * kScores : 4);
    EXPECT_EQ(devices[1].outputs, gathered ? (3 + 2 * 7) * kScores : 4 + 2 * 8);
  }
}

TEST(DataParallel, PassesOnWhatAReplicaThrows) {
  class Throwing final : public GivenModel {
   public:
    using GivenModel::GivenModel;
    at::Tensor Outputs(const Batch& batch) override {
      if (batch.samples == 3) throw std::runtime_error("of the second replica");
      return batch.inputs;
    }
  };
  const std::vector<NamedParameter> weights = {{"weight", at::ones({2}).set_requires_grad(true)}};
  const auto strategy = MakeDataParallel(
      std::make_shared<Throwing>(weights), Sgd(weights),
      [&](auto) {
        return std::make_shared<Throwing>(
            std::vector<NamedParameter>{{"weight", at::ones({2}).set_requires_grad(true)}});
      },
      {.devices = Devices(2)});
  const std::vector<Batch> batches = {BatchFor("mlp", 7, at::kFloat, 1)};
  EXPECT_THROW(strategy->ForwardBackward(
                   {.micro_batches = batches,
                    .loss = [](Model& of, const Batch& batch, size_t) { return of.Loss(batch); }}),
               std::runtime_error);
}

}  // namespace
}  // namespace ddprun::trainer::one_process
