// Models shared out over two simulated devices of one process.
#include <gtest/gtest.h>

#include "tests/trainer/device/train_on.h"

namespace ddprun::trainer {
namespace {

using simulated::ForbidHostSync;
using simulated::kDeviceType;
using simulated::TakeHostSyncs;

class DevicePipeline : public testing::TestWithParam<const char*> {
 protected:
  static Job JobOn(c10::DeviceType type, StrategyType strategy, double dropout = 0) {
    Job job = JobOf(GetParam(), dropout);
    job.config.strategy.type = strategy;
    job.config.strategy.pipeline_micro_batches = 1;
    job.config.training.gradient_accumulation_steps = 3;
    for (c10::DeviceIndex i = 0; i < 2; ++i) {
      const c10::Device device = type == at::kCPU ? c10::Device(type) : c10::Device(type, i);
      job.config.strategy.devices.push_back(device.str());
    }
    return job;
  }
};

TEST_P(DevicePipeline, GivesTheBitsOfTheCpu) {
  for (const auto strategy : {StrategyType::kModelParallel, StrategyType::kPipeline}) {
    for (const bool recomputes : {false, true}) {
      Job job = JobOn(kDeviceType, strategy, /*dropout=*/0.2);
      Job on_cpu = JobOn(at::kCPU, strategy, /*dropout=*/0.2);
      for (Job* one : {&job, &on_cpu}) one->config.training.gradient_checkpointing = recomputes;
      Trained found = TrainOn(kDeviceType, 1, job);
      const Trained expected = TrainInDeviceForms(1, on_cpu);
      // The parts of a norm are summed by device.
      ASSERT_EQ(found.norms.size(), expected.norms.size());
      for (size_t i = 0; i < found.norms.size(); ++i) {
        EXPECT_NEAR(found.norms[i], expected.norms[i], 1e-12 * expected.norms[i]);
      }
      found.norms = expected.norms;
      ExpectSameBits(found, expected);
    }
  }
}

TEST_P(DevicePipeline, WaitsForNoDeviceInAStep) {
  Job job = JobOn(kDeviceType, StrategyType::kPipeline, /*dropout=*/0.2);
  job.config.training.gradient_accumulation_steps = 1;
  job.config.run.max_steps = 6;
  job.config.report.logging_steps = 100;
  auto data = std::make_unique<SmallData>(GetParam(), 64);
  std::unique_ptr<ForbidHostSync> forbidden;
  // Steps 1 and 6 are logged, the first when the next one's batch has come. Before, a sample is
  // looked at twice.
  data->before_batch = [&](int64_t batch) {
    forbidden.reset();
    if (batch > 3 && batch < 7) forbidden = std::make_unique<ForbidHostSync>();
  };
  job.train = std::move(data);
  TrainOn(kDeviceType, 1, job);
  TakeHostSyncs();
}

INSTANTIATE_TEST_SUITE_P(Each,
                         DevicePipeline,
                         testing::Values("mlp", "bert", "gpt", "llama", "resnet18"));

}  // namespace
}  // namespace ddprun::trainer
