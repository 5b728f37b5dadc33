// All models and what goes around them on one and two simulated devices.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>
#include <tuple>

#include "tests/trainer/device/train_on.h"
#include "trainer/job/plan_job.h"
#include "trainer/worker/begin_training.h"

namespace ddprun::trainer {
namespace {

using simulated::ForbidHostSync;
using simulated::kDeviceType;
using simulated::TakeHostSyncs;

class DeviceTraining : public testing::TestWithParam<const char*> {};

TEST_P(DeviceTraining, GivesTheBitsOfTheCpuOnOneDevice) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Job job = JobOf(GetParam(), /*dropout=*/0.2);
    job.config.training.precision = precision;
    job.config.training.gradient_accumulation_steps = 2;
    if (precision == Precision::kBf16) {
      job.config.training.label_smoothing = 0.1;
      // The CPU takes seconds for each of its convolutions in bf16.
      if (GetParam() == std::string("resnet18")) job.config.run.max_steps = 1;
    }
    ExpectSameBits(TrainOn(kDeviceType, 1, job), TrainInDeviceForms(1, job));
  }
}

TEST_P(DeviceTraining, GivesTheBitsOfTheCpuOnTwoDevices) {
  const Job job = JobOf(GetParam());
  const Trained expected = TrainInDeviceForms(2, job);
  ExpectSameBits(TrainOn(kDeviceType, 2, job, Group::kDevice), expected);
  // Through the host's memory.
  ExpectSameBits(TrainOn(kDeviceType, 2, job, Group::kHost), expected);
}

TEST_P(DeviceTraining, IsThatOfTheCpusOwnKernelsUpToRounding) {
  const Job job = JobOf(GetParam());
  const Trained found = TrainOn(kDeviceType, 1, job);
  const Trained expected = TrainOn(at::kCPU, 1, job);
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i] / expected.losses[i], 1, 1e-4) << i;
    EXPECT_NEAR(found.norms[i] / expected.norms[i], 1, 1e-3) << i;
  }
}

TEST_P(DeviceTraining, WaitsForTheDeviceOnlyToReadWhatIsLogged) {
  for (const int ranks : {1, 2}) {
    Job job = JobOf(GetParam(), /*dropout=*/0.2);
    job.config.run.max_steps = 9;
    job.config.report.logging_steps = 4;
    job.config.training.label_smoothing = 0.1;
    auto data = std::make_unique<SmallData>(GetParam(), 128);  // all in one epoch
    std::unique_ptr<ForbidHostSync> forbidden;
    // Steps 1, 4, 8 and 9 are logged. The batch of a step comes when the one before has been
    // queued, and is yet to be logged; another rank may have read what it logs by then.
    data->before_batch = [&](int64_t before) {
      forbidden.reset();
      if (before == 2) TakeHostSyncs();
      if (before == 6) {
        auto syncs = TakeHostSyncs();
        // The host keeps at most two steps ahead.
        std::erase_if(syncs, [](const auto& sync) {
          return sync.kind == simulated::HostSyncKind::kEarlierEvent;
        });
        EXPECT_EQ(syncs.size(), static_cast<size_t>(ranks)) << simulated::Described(syncs);
      }
      if (before > 1 && before % 4 != 0) forbidden = std::make_unique<ForbidHostSync>();
    };
    job.train = std::move(data);
    EXPECT_EQ(TrainOn(kDeviceType, ranks, job, Group::kDevice).losses.size(), 9U);
  }
}

// When a batch comes, the host has waited for all that it had queued two batches before.
TEST_P(DeviceTraining, QueuesNoMoreThanTwoStepsAhead) {
  Job job = JobOf(GetParam());
  job.config.run.max_steps = 9;
  job.config.report.logging_steps = 100;
  auto data = std::make_unique<SmallData>(GetParam(), 12);  // 3 steps an epoch
  std::array<uint64_t, 10> queued = {};
  const size_t stream = simulated::IndexOf(simulated::CurrentStream(0));
  data->before_batch = [&](int64_t before) {
    const auto lock = simulated::BookLock();
    queued.at(static_cast<size_t>(before)) = simulated::ClockOf(stream).times[stream];
    if (before < 2) return;
    EXPECT_GE(simulated::HostClock(0).times[stream], queued.at(static_cast<size_t>(before - 2)));
    EXPECT_GT(queued.at(static_cast<size_t>(before)), queued.at(static_cast<size_t>(before - 1)));
  };
  job.train = std::move(data);
  EXPECT_EQ(TrainOn(kDeviceType, 1, job).losses.size(), 9U);
}

// One process on two devices.
Job DataParallelJob(const std::string& model, c10::DeviceType type, DpLoss loss) {
  Job job = JobOf(model, /*dropout=*/0.2);
  // LibTorch's attention draws from the one generator that all threads of the CPU share.
  if (auto* transformer = TransformerIn(job.model)) transformer->attention_dropout = 0;
  job.config.training.per_device_train_batch_size = 2;
  job.config.training.gradient_accumulation_steps = 2;
  job.config.strategy.type = StrategyType::kDp;
  job.config.strategy.output_device = 1;
  job.config.strategy.loss = loss;
  for (const c10::DeviceIndex index : std::array<c10::DeviceIndex, 2>{0, 1}) {
    job.config.strategy.devices.push_back(
        (type == at::kCPU ? c10::Device(type) : c10::Device(type, index)).str());
  }
  return job;
}

TEST_P(DeviceTraining, ByDataParallelGivesTheBitsOfTheCpu) {
  for (const DpLoss loss : {DpLoss::kGathered, DpLoss::kParallel}) {
    ExpectSameBits(TrainOn(kDeviceType, 1, DataParallelJob(GetParam(), kDeviceType, loss)),
                   TrainInDeviceForms(1, DataParallelJob(GetParam(), at::kCPU, loss)));
  }
}

TEST_P(DeviceTraining, ByDataParallelWaitsForNoDeviceInBetween) {
  for (const DpLoss loss : {DpLoss::kGathered, DpLoss::kParallel}) {
    Job job = DataParallelJob(GetParam(), kDeviceType, loss);
    job.config.training.gradient_accumulation_steps = 1;
    job.config.report.logging_steps = 4;
    auto data = std::make_unique<SmallData>(GetParam(), 64);
    std::vector<std::unique_ptr<ForbidHostSync>> forbidden;
    // Steps 1, 4 and 6 are logged, each when the next one's batch has come.
    data->before_batch = [&](int64_t before) {
      forbidden.clear();
      if (before != 2 && before != 3) return;
      for (const int device : {0, 1}) forbidden.push_back(std::make_unique<ForbidHostSync>(device));
    };
    job.train = std::move(data);
    EXPECT_EQ(TrainOn(kDeviceType, 1, job).losses.size(), 6U);
  }
}

TEST_P(DeviceTraining, RecomputesWithTheSameBits) {
  Job job = JobOf(GetParam(), /*dropout=*/0.2);
  const Trained expected = TrainOn(kDeviceType, 1, job);
  job.config.training.gradient_checkpointing = true;
  ExpectSameBits(TrainOn(kDeviceType, 1, job), expected);
}

TEST_P(DeviceTraining, EvaluatesAsTheCpu) {
  Job job = JobOf(GetParam());
  const std::string model = GetParam();
  job.validation = std::make_unique<SmallData>(model, 10);
  job.config.training.per_device_eval_batch_size = 4;
  if (model != "gpt" && model != "llama") job.config.evaluation.metrics = {"accuracy", "f1_macro"};
  const auto found = TrainOn(kDeviceType, 2, job).evaluations;
  const auto expected = TrainInDeviceForms(2, job).evaluations;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].loss, expected[0].loss);
  EXPECT_EQ(found[0].samples, 10);
  EXPECT_EQ(found[0].metrics, expected[0].metrics);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         DeviceTraining,
                         testing::Values("mlp", "cnn", "resnet18", "bert", "gpt", "llama"),
                         [](const auto& test) { return std::string(test.param); });

// Memory is reported of the rank that used most, since the last reported step.
TEST(DeviceMemory, IsToldWithTheSteps) {
  constexpr int64_t kHeld = 8 << 20;
  const at::Tensor held = at::empty({kHeld}, at::device(simulated::DeviceAt(1)).dtype(at::kByte));
  at::empty({2 * kHeld}, held.options());  // and freed again
  const Job job = JobOf("mlp");
  const auto told = TrainOn(kDeviceType, 2, job, Group::kDevice).reported;
  ASSERT_EQ(told.size(), 3U);
  EXPECT_GE(told[0].max_memory_allocated, 3 * kHeld);
  for (const StepReport& report : {told[1], told[2]}) {
    EXPECT_GT(report.max_memory_allocated, kHeld);
    EXPECT_LT(report.max_memory_allocated, 2 * kHeld);
    EXPECT_GE(report.max_memory_reserved, 3 * kHeld) << "what was freed is kept";
  }
  EXPECT_EQ(TrainOn(at::kCPU, 1, job).reported[0].max_memory_allocated, -1);
}

// The host's clock shows only waits of the host.
TEST(DeviceTimes, HaveWaitsForRanksWhereTheHostWaits) {
  const Job job = JobOf("mlp");
  for (const auto& [type, group, known] :
       {std::tuple(kDeviceType, Group::kDevice, false), std::tuple(kDeviceType, Group::kHost, true),
        std::tuple(at::kCPU, Group::kHost, true)}) {
    for (const StepReport& report : TrainOn(type, 2, job, group).reported) {
      EXPECT_EQ(report.exposed_comm_seconds >= 0, known);
    }
  }
}

// Bucket sizes are compared by the time that the device takes, and not the queueing.
TEST(DeviceTimes, OfBucketSizesAreTheDevices) {
  constexpr std::chrono::milliseconds kKernel(20);
  Job job = JobOf("mlp");
  job.config.run.max_steps = 16;
  job.config.strategy.bucket_cap_mb.automatic = true;
  const auto sleep = [kKernel] { std::this_thread::sleep_for(kKernel); };
  const Trained trained =
      TrainOn(kDeviceType, 2, job, Group::kDevice, [&](Trainer& trainer, int rank) {
        trainer.model().parameters()[0].register_hook([sleep, rank](const at::Tensor&) {
          simulated::Queue(simulated::CurrentStream(rank), {}, sleep);
        });
      });
  ASSERT_EQ(trained.bucket_sizes.size(), 1U);
  for (const auto& trial : trained.bucket_sizes[0].trials) {
    EXPECT_GE(trial.seconds, std::chrono::duration<double>(kKernel).count());
  }
}

TEST(DeviceFloat32, IsTf32WhereThatIsWanted) {
  for (const bool tf32 : {true, false}) {
    Job job = JobOf("mlp");
    job.config.training.tf32 = tf32;
    Mesh mesh;
    mesh.device = simulated::DeviceAt(0);
    Trainer trainer(job, PlanFor(job, 1), mesh, nullptr, Log::ToStderr({}));
    BuildAndTune(job, Environment(), trainer);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), tf32);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), tf32);
  }
}

TEST(DeviceFloat16, GivesTheBitsOfTheCpu) {
  for (const char* model : {"mlp", "gpt", "llama"}) {
    Job job = JobOf(model, /*dropout=*/0.2);
    job.config.training.precision = Precision::kFp16;
    ExpectSameBits(TrainOn(kDeviceType, 1, job), TrainInDeviceForms(1, job));
  }
}

// Four for each of two devices keep sums of one subtree, three keep two.
TEST(DeviceVirtualRanks, GiveTheBitsOfTheCpu) {
  for (const int64_t virtual_ranks : {8, 6}) {
    Job job = JobOf("gpt");
    job.config.training.per_device_train_batch_size = 1;
    job.config.training.virtual_ranks = virtual_ranks;
    const Trained expected = TrainInDeviceForms(2, job);
    for (const Group group : {Group::kDevice, Group::kHost}) {
      ExpectSameBits(TrainOn(kDeviceType, 2, job, group), expected);
    }
  }
}

// Parts of other sizes for each go through the host.
TEST(DeviceVirtualRanks, GiveTheBitsOfTheCpuOnThreeDevices) {
  Job job = JobOf("mlp");
  job.config.training.per_device_train_batch_size = 1;
  job.config.training.virtual_ranks = 6;
  ExpectSameBits(TrainOn(kDeviceType, 3, job), TrainInDeviceForms(3, job));
}

TEST(DeviceMemory, ThatBackwardLacksIsToldAsSuch) {
  constexpr int64_t kAll = int64_t{1} << 40;
  Job job = JobOf("mlp");
  Mesh mesh;
  mesh.device = simulated::DeviceAt();
  const auto train = [&] {
    Train(job, mesh, [&](Trainer& trainer) {
      trainer.model().parameters()[0].register_hook(
          [&](const at::Tensor& gradient) { return at::empty({kAll}, gradient.options()); });
    });
  };
  try {
    train();
    ADD_FAILURE() << "there was memory";
  } catch (...) {
    EXPECT_EQ(CurrentDeviceError([] { return "little"; }).title, "OUT OF GPU MEMORY");
  }
}

struct Way {
  const char* name;
  std::function<void(StrategyConfig& strategy)> choose;
};

class DeviceStrategy : public testing::TestWithParam<Way> {};

TEST_P(DeviceStrategy, GivesTheBitsOfTheCpu) {
  Job job = JobOf("gpt");
  job.config.training.gradient_accumulation_steps = 2;
  job.config.strategy.first_bucket_mb = job.config.strategy.bucket_cap_mb.number = 0.01;
  GetParam().choose(job.config.strategy);
  if (job.config.strategy.optimizer_in_backward) job.config.training.max_grad_norm = 0;
  ExpectSameBits(TrainOn(kDeviceType, 2, job, Group::kDevice), TrainInDeviceForms(2, job));
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    DeviceStrategy,
    testing::Values(Way{"fp16", [](auto& s) { s.comm_hook = CommHookType::kFp16; }},
                    Way{"bf16", [](auto& s) { s.comm_hook = CommHookType::kBf16; }},
                    Way{"power_sgd",
                        [](auto& s) {
                          s.comm_hook = CommHookType::kPowerSgd;
                          s.power_sgd_start_step = 2;
                        }},
                    Way{"post_local_sgd",
                        [](auto& s) {
                          s.comm_hook = CommHookType::kPostLocalSgd;
                          s.post_local_sgd_start_step = 2;
                          s.post_local_sgd_period = 2;
                        }},
                    Way{"overlap_step", [](auto& s) { s.overlap = Overlap::kStep; }},
                    Way{"overlap_both", [](auto& s) { s.overlap = Overlap::kBoth; }},
                    Way{"overlap_none", [](auto& s) { s.overlap = Overlap::kNone; }},
                    Way{"find_unused", [](auto& s) { s.find_unused_parameters = true; }},
                    Way{"static_graph", [](auto& s) { s.static_graph = true; }},
                    Way{"check_finite", [](auto& s) { s.check_finite = true; }},
                    Way{"in_backward", [](auto& s) { s.optimizer_in_backward = true; }}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ddprun::trainer
