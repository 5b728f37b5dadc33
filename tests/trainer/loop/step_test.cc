// One denominator for the mean loss: all predictions of all ranks and micro-batches of a step.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/failure.h"
#include "tests/trainer/loop/small_jobs.h"
#include "trainer/job/open_model.h"
#include "trainer/job/plan_job.h"

namespace ddprun::trainer {
namespace {

TEST(OpenModel, ComparesPositionsWithTheSequencesOfTextOnly) {
  Config config;
  config.model.name_or_path = golden::Path("gpt_init");
  config.data.max_seq_length = 128;
  EXPECT_THROW(OpenModel(config), Failure);
  config.data.format = DataFormat::kPlugin;
  EXPECT_EQ(std::get<GptOptions>(OpenModel(config)).max_position_embeddings, 32);
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
  // Micro-batches of single samples, some of which have no prediction.
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
    both.train = std::make_unique<DatasetPart>(*job.train, 4, [](int64_t i) {
      return std::array<int64_t, 4>{5, 11, 0, 1}[i];
    });
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

// Returns the difference between the weights' changes, relative to the norm of the changes.
double Difference(const Weights& found, const Weights& expected, const Weights& before) {
  double difference = 0;
  double change = 0;
  for (const auto& [name, tensor] : expected) {
    difference += (found.at(name) - tensor).square().sum().item<double>();
    change += (tensor - before.at(name)).square().sum().item<double>();
  }
  return std::sqrt(difference / change);
}

TEST(Float16, TrainsAsFloat32DoesWhereTheScaleKeepsSmallGradients) {
  Job job = MakeJob(6, 1);
  job.config.scheduler.lr_scheduler_type = LrSchedulerType::kConstant;
  const Weights expected = Train(job);
  job.config.optimizer.learning_rate = 0;
  const Weights before = Train(job);
  job.config.optimizer.learning_rate = 0.5;
  job.config.training.precision = Precision::kFp16;
  EXPECT_LT(Difference(Train(job), expected, before), 0.01);
  // Too small a scale: gradients of the early layers are flushed to zero.
  job.config.training.init_loss_scale = 1e-4;
  EXPECT_GT(Difference(Train(job), expected, before), 0.1);
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

TEST(Float16, SkipsAStepThatOverflowsOnAnyRankAndLowersTheScaleOnAll) {
  Job job = MakeJob(2, 1);
  job.config.training.precision = Precision::kFp16;
  job.config.training.init_loss_scale = std::ldexp(1.0, 30);
  job.config.training.loss_scale_growth_interval = 1000;
  job.config.scheduler = {.lr_scheduler_type = LrSchedulerType::kConstant, .warmup_steps = 30};
  job.config.run.max_steps = 30;
  for (const double max_norm : {0.0, 1.0}) {
    job.config.training.max_grad_norm = max_norm;
    std::vector<StepReport> steps;
    std::vector<Weights> found(2);
    WithGroup(2, [&](const auto& group, int rank) {
      Observers observers;
      observers.Add(std::make_unique<StepList>(steps));
      found[rank] = Train(job, group, rank == 0 ? &observers : nullptr);
    });
    ASSERT_EQ(steps.size(), 30U);
    double scale = job.config.training.init_loss_scale;
    int64_t skipped = 0;
    for (const StepReport& step : steps) {
      EXPECT_EQ(step.loss_scale, scale) << step.step;
      // The schedule counts updates.
      EXPECT_DOUBLE_EQ(step.learning_rate, 0.5 * static_cast<double>(step.step - 1 - skipped) / 30);
      if (step.skipped_steps == skipped) continue;
      ++skipped;
      scale /= 2;
    }
    EXPECT_GT(skipped, 2);
    EXPECT_LT(skipped, 25);
    EXPECT_EQ(steps.back().skipped_steps, skipped);
    for (const auto& [name, tensor] : found[0]) {
      EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
      EXPECT_TRUE(tensor.equal(found[1].at(name))) << name;
    }
  }
}

TEST(Float16, EndsWhereNoScaleHelps) {
  Job job = MakeJob(2, 1);
  job.config.training.precision = Precision::kFp16;
  job.config.training.init_loss_scale = 1;
  job.config.training.stop_on_bad_loss = false;
  job.config.optimizer.learning_rate = 1e30;
  job.config.scheduler.lr_scheduler_type = LrSchedulerType::kConstant;
  job.config.run.max_steps = 100;
  try {
    Train(job);
    ADD_FAILURE() << "trained";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().title, "NO LOSS SCALE FITS");
  }
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

// All numbers that a run tells but for its times.
class AllNumbers final : public Observer {
 public:
  explicit AllNumbers(std::vector<double>& numbers) : numbers_(numbers) {}
  void OnStep(const StepReport& report, ReportTime /*now*/) override {
    for (const double number :
         {report.loss, report.mean_loss, report.grad_norm, report.epoch, report.learning_rate,
          static_cast<double>(report.samples), report.weight}) {
      numbers_.push_back(number);
    }
  }
  void OnEval(const EvalReport& report, ReportTime /*now*/) override {
    numbers_.push_back(report.loss);
    for (const auto& [name, value] : report.metrics) numbers_.push_back(value);
  }

 private:
  std::vector<double>& numbers_;
};

struct Outcome {
  Weights weights;
  std::vector<double> numbers;
};

Outcome TrainOn(int processes, const Job& job) {
  Outcome outcome;
  WithGroup(processes, [&](const auto& group, int rank) {
    Observers observers;
    observers.Add(std::make_unique<AllNumbers>(outcome.numbers));
    Weights weights = Train(job, group, rank == 0 ? &observers : nullptr);
    if (rank == 0) outcome.weights = std::move(weights);
  });
  return outcome;
}

// Micro-batches of unequal numbers of predictions, the last step of an epoch with fewer of them.
Job VirtualJob(Precision precision, int64_t virtual_ranks) {
  Job job = MakeJob(1, 2);
  job.config.training.virtual_ranks = virtual_ranks;
  job.config.training.precision = precision;
  job.config.training.max_grad_norm = 0.5;
  job.config.training.per_device_eval_batch_size = 2;
  job.config.data.shuffle = true;
  job.config.evaluation.eval_steps = {.amount = 2};
  job.config.evaluation.metrics = {"perplexity", "accuracy"};
  job.config.optimizer = OptimizerConfig();
  job.config.optimizer.learning_rate = 0.01;
  job.validation = std::make_unique<UnevenText>();
  return job;
}

TEST(VirtualRanks, HaveTheSameBitsAndNumbersForAnyNumberOfProcesses) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    const Job job = VirtualJob(precision, 8);
    const Outcome expected = TrainOn(1, job);
    for (const int processes : {2, 3, 4, 5, 8}) {
      const Outcome found = TrainOn(processes, job);
      EXPECT_EQ(found.numbers, expected.numbers) << processes;
      for (const auto& [name, tensor] : expected.weights) {
        EXPECT_TRUE(found.weights.at(name).equal(tensor)) << name << " of " << processes;
      }
    }
  }
}

TEST(VirtualRanks, HaveTheNumbersOfAsManyRanksButForTheLastBits) {
  const Outcome plain = TrainOn(4, VirtualJob(Precision::kFp32, 0));
  const Outcome found = TrainOn(1, VirtualJob(Precision::kFp32, 4));
  ASSERT_EQ(found.numbers.size(), plain.numbers.size());
  for (size_t i = 0; i < plain.numbers.size(); ++i) {
    EXPECT_NEAR(found.numbers[i], plain.numbers[i], 1e-5 * std::abs(plain.numbers[i])) << i;
  }
}

TEST(VirtualRanks, AreNotForMoreProcesses) {
  const Job job = VirtualJob(Precision::kFp32, 2);
  EXPECT_EQ(PlanFor(job, 2).data_ranks, 2);
  EXPECT_THROW(PlanFor(job, 3), Failure);
}

}  // namespace
}  // namespace ddprun::trainer
