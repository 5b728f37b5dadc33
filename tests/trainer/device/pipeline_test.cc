// Models shared out over two simulated devices of one process.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>

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

// Over ranks with a device each.
class DeviceStages : public testing::TestWithParam<const char*> {
 protected:
  static Job JobOn(int stages, int micro_batches, double dropout = 0) {
    Job job = JobOf(GetParam(), dropout);
    job.config.strategy.type = StrategyType::kPipeline;
    job.config.strategy.pipeline_parallel_size = stages;
    job.config.strategy.pipeline_micro_batches = 1;
    job.config.training.gradient_accumulation_steps = micro_batches;
    return job;
  }
};

TEST_P(DeviceStages, GiveTheBitsOfTheCpu) {
  for (const auto& [stages, ranks, schedule] : {std::tuple(2, 2, PipelineSchedule::k1F1B),
                                                {4, 4, PipelineSchedule::k1F1B},
                                                {2, 4, PipelineSchedule::kGpipe}}) {
    SCOPED_TRACE(std::to_string(stages) + " stages of " + std::to_string(ranks) + " ranks");
    Job job = JobOn(stages, 4);
    job.config.strategy.pipeline_schedule = schedule;
    job.validation = std::make_unique<SmallData>(GetParam(), 10);
    job.config.training.per_device_eval_batch_size = 2;
    const Trained expected = TrainInDeviceForms(ranks, job);
    const Trained found = TrainOn(kDeviceType, ranks, job, Group::kDevice);
    ExpectSameBits(found, expected);
    ASSERT_EQ(found.evaluations.size(), 1U);
    EXPECT_EQ(found.evaluations[0].loss, expected.evaluations[0].loss);
    for (const StepReport& step : found.reported) {
      EXPECT_LT(step.pipeline_bubble, 0);
      EXPECT_LT(step.exposed_comm_seconds, 0);
    }
    // Through the host's memory, as ranks do that share one device.
    if (ranks == 2) ExpectSameBits(TrainOn(kDeviceType, 2, job), expected);
  }
}

TEST_P(DeviceStages, WaitForNoDeviceInAStep) {
  Job job = JobOn(2, 4, /*dropout=*/0.2);
  job.config.run.max_steps = 7;
  job.config.report.logging_steps = 100;
  auto data = std::make_unique<SmallData>(GetParam(), 256);
  std::array<std::unique_ptr<ForbidHostSync>, 2> forbidden;
  data->watched = 2;
  // Steps 1 and 7 are logged, the first when the next one's batches have come. Before, a sample is
  // looked at twice.
  data->before_batch = [&](int64_t batch) {
    auto& own = forbidden.at(static_cast<size_t>(simulated::CurrentDevice()));
    own.reset();
    if (batch > 10 && batch < 22) own = std::make_unique<ForbidHostSync>();
  };
  job.train = std::move(data);
  EXPECT_EQ(TrainOn(kDeviceType, 2, job, Group::kDevice).losses.size(), 7U);
}

INSTANTIATE_TEST_SUITE_P(Each, DeviceStages, testing::Values("bert", "gpt", "llama"));

}  // namespace
}  // namespace ddprun::trainer
