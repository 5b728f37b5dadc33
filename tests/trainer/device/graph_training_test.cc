// Steps that a device's graph replays: the bits of those that are queued, and why not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "tests/trainer/checkpoint/checkpoint_fixture.h"
#include "tests/trainer/device/train_on.h"
#include "trainer/checkpoint/checkpoint_folder.h"

namespace ddprun::trainer {
namespace {

using simulated::kDeviceType;
using simulated::TakeReplays;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSteps = 16;
constexpr int64_t kReplayed = kSteps - 3;

// Learning rates are multiples of 2^-11: kernels that read them from memory do so in float32.
Job GraphJob(const std::string& model, double dropout = 0) {
  Job job = JobOf(model, dropout);
  job.config.run.max_steps = kSteps;
  job.config.scheduler = {.lr_scheduler_type = LrSchedulerType::kLinear, .min_lr_ratio = 0.5};
  job.config.optimizer.learning_rate = 1.0 / 64;
  job.config.training.cuda_graph = true;
  job.config.data.shuffle = false;  // each batch has its padding where the others have it
  job.train = std::make_unique<SmallData>(model, 256);
  return job;
}

Trained WithoutGraph(Job& job, int ranks) {
  job.config.training.cuda_graph = false;
  Trained trained = TrainOn(kDeviceType, ranks, job, Group::kDevice);
  job.config.training.cuda_graph = true;
  EXPECT_EQ(TakeReplays(), 0);
  return trained;
}

class DeviceGraphTraining : public testing::TestWithParam<const char*> {};

TEST_P(DeviceGraphTraining, GivesTheBitsOfQueuedStepsOnOneDevice) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Job job = GraphJob(GetParam(), /*dropout=*/0.2);
    job.config.training.precision = precision;
    // The CPU takes seconds for each convolution of this model in bf16.
    const bool slow = precision == Precision::kBf16 && GetParam() == std::string("resnet18");
    if (slow) job.config.run.max_steps = 5;
    const Trained expected = WithoutGraph(job, 1);
    const Trained found = TrainOn(kDeviceType, 1, job);
    ExpectSameBits(found, expected);
    EXPECT_EQ(TakeReplays(), job.config.run.max_steps - 3);
    EXPECT_THAT(found.lines, IsEmpty());
    for (size_t i = 0; i < found.reported.size(); ++i) {
      EXPECT_EQ(found.reported[i].learning_rate, expected.reported[i].learning_rate);
      EXPECT_EQ(found.reported[i].samples, 4);
    }
  }
}

TEST_P(DeviceGraphTraining, GivesTheBitsOfQueuedStepsOnTwoDevices) {
  Job job = GraphJob(GetParam());
  job.config.strategy.first_bucket_mb = job.config.strategy.bucket_cap_mb.number = 0.005;
  const Trained expected = WithoutGraph(job, 2);
  ExpectSameBits(TrainOn(kDeviceType, 2, job, Group::kDevice), expected);
  EXPECT_EQ(TakeReplays(), 2 * kReplayed);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         DeviceGraphTraining,
                         testing::Values("mlp", "cnn", "resnet18", "bert", "gpt", "llama"),
                         [](const auto& test) { return std::string(test.param); });

TEST(DeviceGraphTrainer, QueuesAStepInAFewOperations) {
  for (const int ranks : {1, 2}) {
    Job job = GraphJob("gpt");
    job.config.report.logging_steps = 100;
    auto data = std::make_unique<SmallData>("gpt", 256);
    std::map<int64_t, int64_t> queued;  // until the batch came
    data->before_batch = [&](int64_t batch) { queued[batch] = simulated::TakeQueued(); };
    job.train = std::move(data);
    TrainOn(kDeviceType, ranks, job, Group::kDevice);
    EXPECT_GT(queued.at(3), 100) << "step 2";
    EXPECT_LT(queued.at(10), 15 * ranks) << "step 9";
  }
  TakeReplays();
}

// Evaluations and checkpoints between replays see the current weights; reports have the norm also
// without clipping.
TEST(DeviceGraphTrainer, EvaluatesAndStepsWithAnyOptimizer) {
  for (const OptimizerType type :
       {OptimizerType::kAdam, OptimizerType::kSgd, OptimizerType::kLion}) {
    Job job = GraphJob("bert");
    job.config.optimizer.type = type;
    job.config.optimizer.momentum = 0.9;
    job.config.training.max_grad_norm = 0;
    job.config.evaluation.eval_steps = {.amount = 5};
    job.validation = std::make_unique<SmallData>("bert", 10);
    job.config.training.per_device_eval_batch_size = 4;
    for (const int ranks : {1, 2}) {
      const Trained expected = WithoutGraph(job, ranks);
      const Trained found = TrainOn(kDeviceType, ranks, job, Group::kDevice);
      ExpectSameBits(found, expected);
      ASSERT_EQ(found.evaluations.size(), 4U);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(found.evaluations[i].loss, expected.evaluations[i].loss);
      }
      EXPECT_EQ(TakeReplays(), ranks * kReplayed);
    }
  }
}

TEST(DeviceGraphTrainer, GoesOnFromACheckpointThatWasSavedBesideReplays) {
  Job job = GraphJob("gpt", /*dropout=*/0.2);
  const Trained expected = WithoutGraph(job, 1);
  job.config.checkpoint.save_steps = {.amount = 4};
  const CheckpointFolder folder;
  const auto run = [&](int64_t stop, const char* attempt) {
    Mesh mesh;
    mesh.device = simulated::DeviceAt();
    mesh.make_graph = simulated::MakeGraph;
    return Train(job, mesh, [&](Trainer& trainer) {
      trainer.SaveTo({.run = "", .folder = folder.path(), .attempt = attempt}, RankPart{});
      const NewestCheckpoint newest = ValueOrThrow(OpenNewest(folder.path()));
      if (newest.checkpoint) trainer.Restore(*newest.checkpoint);
      trainer.StopWhen([&trainer, stop] { return trainer.step() == stop; });
    });
  };
  const Trained first = run(9, "a"), second = run(-1, "b");
  EXPECT_EQ(TakeReplays(), (9 - 3) + (kSteps - 9 - 3));
  Trained whole = second;
  whole.losses.insert(whole.losses.begin(), first.losses.begin(), first.losses.end());
  whole.norms.insert(whole.norms.begin(), first.norms.begin(), first.norms.end());
  ExpectSameBits(whole, expected);
}

// The last batch of an epoch is a short one; or texts are padded.
TEST(DeviceGraphTrainer, QueuesStepsOfAnotherForm) {
  for (const char* model : {"mlp", "bert"}) {
    const bool is_padded = model == std::string("bert");
    Job job = GraphJob(model);
    job.config.data.shuffle = is_padded;
    job.train = std::make_unique<SmallData>(model, is_padded ? 256 : 26);  // 7 steps an epoch
    const Trained expected = WithoutGraph(job, 1);
    const Trained found = TrainOn(kDeviceType, 1, job);
    ExpectSameBits(found, expected);
    const int64_t replays = TakeReplays();
    EXPECT_TRUE(is_padded ? replays < 5 : replays == kReplayed - 2) << replays;
    EXPECT_THAT(found.lines, ElementsAre(HasSubstr("CUDA graph: not used where the shape")));
    EXPECT_THAT(found.lines, ElementsAre(HasSubstr(is_padded ? "as in step" : "as in step 7")));
  }
}

// One line says why, and the run is as without.
TEST(DeviceGraphTrainer, SaysWhyItQueuesSteps) {
  struct Case {
    const char* why;
    std::function<void(Config&)> choose;
    int ranks = 1;
    Group group = Group::kDevice;
  };
  const Case cases[] = {
      {"training.precision \"fp16\"", [](Config& c) { c.training.precision = Precision::kFp16; }},
      {"training.gradient_accumulation_steps 2",
       [](Config& c) { c.training.gradient_accumulation_steps = 2; }},
      {"training.gradient_checkpointing true",
       [](Config& c) { c.training.gradient_checkpointing = true; }},
      {"training.virtual_ranks 2",
       [](Config& c) {
         c.training.virtual_ranks = 2;
         c.training.per_device_train_batch_size = 1;
       },
       2},
      {"report.state_hashes true", [](Config& c) { c.report.state_hashes = true; }},
      {"strategy.type \"zero1\"", [](Config& c) { c.strategy.type = StrategyType::kZero1; }, 2},
      {"strategy.comm_hook \"fp16\"", [](Config& c) { c.strategy.comm_hook = CommHookType::kFp16; },
       2},
      {"strategy.overlap \"step\"", [](Config& c) { c.strategy.overlap = Overlap::kStep; }, 2},
      {"strategy.find_unused_parameters true",
       [](Config& c) { c.strategy.find_unused_parameters = true; }, 2},
      {"gradients go through the host", [](Config&) {}, 2, Group::kHost},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.why);
    Job job = GraphJob("mlp");
    job.config.run.max_steps = 5;
    one.choose(job.config);
    const Trained found = TrainOn(kDeviceType, one.ranks, job, one.group);
    EXPECT_THAT(found.lines,
                ElementsAre(HasSubstr(std::string("CUDA graph: not used: ") + one.why)));
    EXPECT_EQ(TakeReplays(), 0);
    job.config.training.cuda_graph = false;
    ExpectSameBits(found, TrainOn(kDeviceType, one.ranks, job, one.group));
  }
  EXPECT_THAT(TrainOn(at::kCPU, 1, GraphJob("mlp")).lines,
              ElementsAre(HasSubstr("CUDA graph: not used: training is on the CPU")));
}

// A rule of capture that a step breaks ends the recording, not the run.
TEST(DeviceGraphTrainer, QueuesStepsThatCannotBeRecorded) {
  Job job = GraphJob("gpt");
  const Trained expected = WithoutGraph(job, 1);
  Mesh mesh;
  mesh.device = simulated::DeviceAt();
  mesh.make_graph = simulated::MakeGraph;
  int calls = 0;
  const Trained found = Train(job, mesh, [&](Trainer& trainer) {
    trainer.model().parameters()[0].register_hook([&](const at::Tensor& gradient) {
      if (++calls == 4) gradient.sum().item<float>();
    });
  });
  ExpectSameBits(found, expected);
  EXPECT_EQ(calls, kSteps + 1);
  EXPECT_EQ(TakeReplays(), 0);
  EXPECT_THAT(found.lines, ElementsAre(AllOf(HasSubstr("not used: a step cannot be recorded"),
                                             HasSubstr("a value to the host"))));
}

// Other steps than those of GraphJob() have learning rates that float32 rounds.
TEST(DeviceGraphTrainer, QueuesStepsWithThePrecisionOfRecordedOnes) {
  for (const OptimizerType type :
       {OptimizerType::kAdamW, OptimizerType::kSgd, OptimizerType::kAdagrad}) {
    Job job = GraphJob("mlp");
    job.config.optimizer.type = type;
    job.config.optimizer.learning_rate = 0.01;
    const Trained replayed = TrainOn(kDeviceType, 1, job);
    EXPECT_EQ(TakeReplays(), kReplayed);
    Mesh mesh;
    mesh.device = simulated::DeviceAt();
    mesh.make_graph = simulated::MakeGraph;
    int calls = 0;
    const Trained queued = Train(job, mesh, [&](Trainer& trainer) {
      trainer.model().parameters()[0].register_hook([&](const at::Tensor& gradient) {
        if (++calls == 4) gradient.sum().item<float>();
      });
    });
    EXPECT_EQ(TakeReplays(), 0);
    ExpectSameBits(queued, replayed);
  }
}

// A graph that counts the pinned memory which was taken while it was recorded.
class CountingGraph final : public DeviceGraph {
 public:
  explicit CountingGraph(c10::Device device) : graph_(simulated::MakeGraph(device)) {}
  void Begin() override {
    before_ = simulated::PinnedBytes();
    graph_->Begin();
  }
  void End() override {
    graph_->End();
    taken = simulated::PinnedBytes() - before_;
  }
  void Replay() override { graph_->Replay(); }

  static inline std::optional<size_t> taken;

 private:
  const std::unique_ptr<DeviceGraph> graph_;
  size_t before_ = 0;
};

TEST(DeviceGraphTrainer, TakesNoPinnedMemoryWhileItRecords) {
  for (const char* model : {"gpt", "llama"}) {
    Mesh mesh;
    mesh.device = simulated::DeviceAt();
    mesh.make_graph = [](c10::Device device) -> std::unique_ptr<DeviceGraph> {
      return std::make_unique<CountingGraph>(device);
    };
    CountingGraph::taken.reset();
    Train(GraphJob(model), mesh);
    EXPECT_EQ(CountingGraph::taken, size_t{0}) << model;
    EXPECT_EQ(TakeReplays(), kReplayed);
  }
}

// In its backward, or so that only the end of the capture tells.
TEST(DeviceGraphTrainer, QueuesStepsThatOneRankCannotRecord) {
  Job job = GraphJob("gpt");
  const Trained expected = WithoutGraph(job, 2);
  for (const size_t parameter : {0, 7}) {
    for (const bool late : {false, true}) {
      const int failing = late ? 0 : 1;
      int calls = 0;
      const auto fail = [&](const at::Tensor& gradient) {
        if (++calls != 4) return;
        try {
          gradient.sum().item<float>();
        } catch (...) {
          if (!late) throw;
        }
      };
      const Trained found =
          TrainOn(kDeviceType, 2, job, Group::kDevice, [&](Trainer& trainer, int rank) {
            if (rank == failing) trainer.model().parameters()[parameter].register_hook(fail);
          });
      ExpectSameBits(found, expected);
      EXPECT_EQ(TakeReplays(), 0);
      EXPECT_THAT(found.lines,
                  ElementsAre(HasSubstr(failing == 0 ? "a value to the host" : "on another rank")));
    }
  }
}

// Here it is rank 1's padding that changes, with as many predictions.
TEST(DeviceGraphTrainer, QueuesStepsThatOneRankCannotReplay) {
  Job job = GraphJob("bert");
  job.train = std::make_unique<SmallData>("bert", 256);
  static_cast<SmallData&>(*job.train).other_padding = 37;  // of rank 1, in step 5
  const Trained expected = WithoutGraph(job, 2);
  ExpectSameBits(TrainOn(kDeviceType, 2, job, Group::kDevice), expected);
  EXPECT_EQ(TakeReplays(), 2 * (kReplayed - 1));
}

}  // namespace
}  // namespace ddprun::trainer
