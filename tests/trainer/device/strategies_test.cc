// Strategies with several ranks on two simulated devices: the CPU's bits without a race, and no
// wait of the host within a step.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "tests/trainer/device/train_on.h"
#include "trainer/config/slot.h"

namespace ddprun::trainer {
namespace {

using simulated::ForbidHostSync;
using simulated::kDeviceType;

constexpr std::array kModels = {"mlp", "bert", "gpt", "llama"};
constexpr int64_t kStepSamples = 8;

class DeviceStrategies : public testing::TestWithParam<StrategyType> {
 protected:
  static Job JobWith(const std::string& model, double dropout = 0) {
    Job job = JobOf(model, dropout);
    job.config.strategy.type = GetParam();
    // Several buckets, and units of zero1 and zero2.
    job.config.strategy.first_bucket_mb = job.config.strategy.bucket_cap_mb.number = 0.005;
    const bool same_samples = GetParam() == StrategyType::kTensorParallel;
    job.config.training.per_device_train_batch_size =
        same_samples ? kStepSamples : kStepSamples / 2;
    job.config.data.shuffle = false;
    return job;
  }
};

TEST_P(DeviceStrategies, GiveTheBitsOfTheCpu) {
  for (const char* model : kModels) {
    SCOPED_TRACE(model);
    Job job = JobWith(model);  // ranks that are threads draw from one generator
    job.config.training.gradient_accumulation_steps = 2;
    const Trained expected = TrainInDeviceForms(2, job);
    ExpectSameBits(TrainOn(kDeviceType, 2, job, Group::kDevice), expected);
    // Through the host's memory, as ranks do that share one device.
    if (model == std::string("gpt")) ExpectSameBits(TrainOn(kDeviceType, 2, job), expected);
  }
}

TEST_P(DeviceStrategies, HaveTheLossesOfOneDevice) {
  for (const char* model : kModels) {
    SCOPED_TRACE(model);
    Job single = JobWith(model);
    single.config.strategy.type = StrategyType::kSingle;
    single.config.training.per_device_train_batch_size = kStepSamples;
    const Trained expected = TrainOn(kDeviceType, 1, single);
    const Trained found = TrainOn(kDeviceType, 2, JobWith(model), Group::kDevice);
    ASSERT_EQ(found.losses.size(), expected.losses.size());
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(found.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << i;
      EXPECT_NEAR(found.norms[i], expected.norms[i], 1e-4 * expected.norms[i]) << i;
    }
  }
}

TEST_P(DeviceStrategies, WaitForNoDeviceInAStep) {
  for (const char* model : kModels) {
    SCOPED_TRACE(model);
    Job job = JobWith(model, /*dropout=*/0.2);
    job.config.run.max_steps = 7;
    job.config.report.logging_steps = 100;
    auto data = std::make_unique<SmallData>(model, 128);
    std::array<std::unique_ptr<ForbidHostSync>, 2> forbidden;
    data->watched = 2;
    // Steps 1 and 7 are logged. Before, some strategies look at a sample.
    data->before_batch = [&](int64_t batch) {
      auto& own = forbidden.at(static_cast<size_t>(simulated::CurrentDevice()));
      own.reset();
      if (batch > 2 && batch < 6) own = std::make_unique<ForbidHostSync>();
    };
    job.train = std::move(data);
    EXPECT_EQ(TrainOn(kDeviceType, 2, job, Group::kDevice).losses.size(), 7U);
  }
}

INSTANTIATE_TEST_SUITE_P(Each,
                         DeviceStrategies,
                         testing::Values(StrategyType::kDdp,
                                         StrategyType::kZero1,
                                         StrategyType::kZero2,
                                         StrategyType::kZero3,
                                         StrategyType::kTensorParallel),
                         [](const auto& test) { return std::string(Word(test.param)); });

}  // namespace
}  // namespace ddprun::trainer
