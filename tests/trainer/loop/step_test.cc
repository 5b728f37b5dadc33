// One denominator for the mean loss: all predictions of all ranks and micro-batches of a step.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/failure.h"
#include "tests/golden/golden_file.h"
#include "tests/trainer/parallel/device_group.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/loop/open_parts.h"
#include "trainer/loop/trainer.h"

namespace ddprun::trainer {
namespace {

constexpr int64_t kSamples = 24;
constexpr int64_t kTokens = 16;

// Byte sequences of which ever fewer targets count; every 6th sample has none.
class UnevenText final : public Dataset {
 public:
  // Draws from torch's generator for every batch as often as this says.
  explicit UnevenText(int draws = 0) : draws_(draws) {}
  int64_t size() const override { return kSamples; }
  bool equal_predictions() const override { return false; }
  bool in_memory() const override { return true; }
  Batch Get(std::span<const int64_t> indices) const override {
    if (draws_ > 0) at::rand({draws_});
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> targets;
    for (const int64_t index : indices) {
      const at::Tensor text = Random({kTokens + 1}, 100 + index).mul(20).add(100).to(at::kLong);
      at::Tensor target = text.slice(0, 1).clone();
      target.slice(0, 0, kTokens * (index % 6) / 6).fill_(-100);
      if (index % 6 == 5) target.fill_(-100);
      inputs.push_back(text.slice(0, 0, kTokens));
      targets.push_back(target);
    }
    Batch batch{.inputs = at::stack(inputs), .targets = at::stack(targets)};
    batch.samples = static_cast<int64_t>(indices.size());
    batch.predictions = batch.targets.ne(-100).sum().item<int64_t>();
    return batch;
  }

 private:
  const int draws_;
};

Job MakeJob(int64_t batch_size, int64_t accumulation) {
  Job job;
  job.config.run.max_steps = 4;
  job.config.model.name_or_path = golden::Path("gpt_init");
  job.config.data.max_seq_length = 32;
  job.config.data.shuffle = false;
  job.config.training.per_device_train_batch_size = batch_size;
  job.config.training.gradient_accumulation_steps = accumulation;
  job.config.training.max_grad_norm = 0;
  job.config.optimizer.type = OptimizerType::kSgd;
  job.config.optimizer.learning_rate = 0.5;
  job.config.optimizer.weight_decay = 0;
  job.model = OpenModel(job.config);
  job.train = std::make_unique<UnevenText>();
  return job;
}

TEST(OpenModel, ComparesPositionsWithTheSequencesOfTextOnly) {
  Config config;
  config.model.name_or_path = golden::Path("gpt_init");
  config.data.max_seq_length = 128;
  EXPECT_THROW(OpenModel(config), Failure);
  config.data.format = DataFormat::kPlugin;
  EXPECT_EQ(std::get<GptOptions>(OpenModel(config)).max_position_embeddings, 32);
}

using Weights = std::map<std::string, at::Tensor>;

// The models are small, and ranks are threads already.
Weights Train(const Job& job, const Mesh& mesh = {}, const Observers* observers = nullptr) {
  at::set_num_threads(1);
  Trainer trainer(job, PlanFor(job, mesh.data.size), mesh, nullptr, Log::ToStderr({}));
  trainer.Build();
  trainer.Fit(observers);
  Weights weights;
  for (const auto& item : trainer.model().named_parameters()) {
    weights[item.key()] = item.value().detach().clone();
  }
  return weights;
}

void ExpectClose(const Weights& found, const Weights& expected) {
  for (const auto& [name, tensor] : expected) {
    EXPECT_LT((found.at(name) - tensor).abs().max().item<float>(), 2e-6) << name;
  }
}

TEST(TrainStep, OnTwoRanksWithUnevenCountsEqualsOneProcessOnAllOfThem) {
  const Weights expected = Train(MakeJob(6, 1));
  const Job job = MakeJob(3, 1);
  std::vector<Weights> found(2);
  WithGroup(2, [&](const auto& group, int rank) { found[rank] = Train(job, group); });
  ExpectClose(found[0], expected);
  ExpectClose(found[1], expected);
}

TEST(TrainStep, OfMicroBatchesWithUnevenCountsEqualsOneLargeBatch) {
  // Of single samples: some of them have no prediction at all.
  ExpectClose(Train(MakeJob(1, 6)), Train(MakeJob(6, 1)));
}

TEST(TrainStep, WithoutAnyPredictionChangesNothingAndEndsNothing) {
  // With batches of one sample the sixth step has no target.
  Job job = MakeJob(1, 1);
  job.config.scheduler.lr_scheduler_type = LrSchedulerType::kConstant;
  job.config.run.max_steps = 5;
  const Weights before = Train(job);
  job.config.run.max_steps = 6;
  const Weights after = Train(job);
  for (const auto& [name, tensor] : before) EXPECT_TRUE(after.at(name).equal(tensor)) << name;
  // The first step of these two ranks has none either.
  WithGroup(2, [&](const auto& group, int) {
    Job both = MakeJob(1, 1);
    both.train = std::make_unique<DatasetPart>(
        *job.train, 4, [](int64_t i) { return std::array<int64_t, 4>{5, 11, 0, 1}[i]; });
    Train(both, group);
  });
}

TEST(TrainStep, OnRanksOfWhichSomeHaveNoPredictionEqualsOneProcess) {
  const Weights expected = Train(MakeJob(6, 1));
  const Job job = MakeJob(1, 2);
  std::vector<Weights> found(3);
  WithGroup(3, [&](const auto& group, int rank) { found[rank] = Train(job, group); });
  ExpectClose(found[2], expected);
}

TEST(TrainStep, SendsNoHostTensorThroughTheGroupOfTheDevice) {
  Job job = MakeJob(3, 1);
  job.config.run.max_steps = 2;
  job.validation = std::make_unique<UnevenText>();
  job.config.training.per_device_eval_batch_size = 4;
  WithGroup(2, [&](const auto& group, int) {
    Mesh mesh = group;
    const Weights expected = Train(job, mesh);
    mesh.data.group = c10::make_intrusive<DeviceGroup>(group);
    for (const auto& [name, tensor] : Train(job, mesh)) {
      EXPECT_TRUE(expected.at(name).equal(tensor)) << name;
    }
  });
}

class StepList final : public Observer {
 public:
  explicit StepList(std::vector<StepReport>& steps) : steps_(steps) {}
  void OnStep(const StepReport& report, ReportTime /*now*/) override { steps_.push_back(report); }

 private:
  std::vector<StepReport>& steps_;
};

TEST(Observers, HearOfEveryStepAndWhichToTell) {
  Job job = MakeJob(4, 1);
  job.config.run.max_steps = 7;
  job.config.report.logging_steps = 3;
  std::vector<StepReport> steps;
  WithGroup(2, [&](const auto& group, int rank) {
    Observers observers;
    observers.Add(std::make_unique<StepList>(steps));
    Train(job, group, rank == 0 ? &observers : nullptr);
  });
  ASSERT_EQ(steps.size(), 7U);
  for (const StepReport& step : steps) {
    EXPECT_EQ(step.reported, step.step == 1 || step.step % 3 == 0 || step.step == 7) << step.step;
    EXPECT_EQ(step.samples, 8);
  }
  EXPECT_EQ(steps[0].mean_loss, steps[0].loss);
  EXPECT_DOUBLE_EQ(steps[2].mean_loss, (steps[1].loss + steps[2].loss) / 2);
  EXPECT_DOUBLE_EQ(steps[5].mean_loss, (steps[3].loss + steps[4].loss + steps[5].loss) / 3);
}

TEST(TrainStep, DrawsWhatIsRandomFromItsPlaceAlone) {
  Job job = MakeJob(2, 2);
  auto& gpt = std::get<GptOptions>(job.model);
  gpt.dropout = gpt.embedding_dropout = gpt.attention_dropout = 0.3;
  const Weights expected = Train(job);
  job.train = std::make_unique<UnevenText>(3);
  for (const auto& [name, tensor] : Train(job)) {
    EXPECT_TRUE(expected.at(name).equal(tensor)) << name;
  }
  job.config.run.seed += 1;
  const auto& [name, tensor] = *expected.begin();
  EXPECT_FALSE(Train(job).at(name).equal(tensor)) << name;
}

}  // namespace
}  // namespace ddprun::trainer
