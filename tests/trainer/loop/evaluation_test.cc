// Evaluations that a run does not come to the end of, and steps whose gradients are no numbers:
// what was trained is kept.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <utility>

#include "tests/trainer/loop/resume_fixture.h"
#include "trainer/data/random_dataset.h"
#include "trainer/job/plan_job.h"
#include "trainer/job/run_text.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;

constexpr const char* kEvaluating = R"({
  "run": {"max_epochs": 3},
  "model": {"type": "mlp", "layer_sizes": [6, 8, 3]},
  "data": {"format": "random", "num_samples": 20, "input_size": 6, "target_size": 3},
  "training": {"per_device_train_batch_size": 2, "per_device_eval_batch_size": 1},
  "evaluation": {"eval_steps": 5},
  "checkpoint": {"save_steps": "1000 epochs"}})";

// Samples of another data set; each batch is told before it is given.
class WatchedDataset final : public Dataset {
 public:
  WatchedDataset(std::unique_ptr<Dataset> whole, std::function<void()> before)
      : whole_(std::move(whole)), before_(std::move(before)) {}
  int64_t size() const override { return whole_->size(); }
  DataShape shape() const override { return whole_->shape(); }
  bool in_memory() const override { return true; }
  Batch Get(std::span<const int64_t> indices) const override {
    before_();
    return whole_->Get(indices);
  }

 private:
  const std::unique_ptr<Dataset> whole_;
  const std::function<void()> before_;
};

// 20 samples, too.
Job OpenEvaluating(const std::vector<std::string>& overrides = {}) {
  Job job = OpenResumeJob(overrides, kEvaluating);
  job.validation = std::make_unique<RandomDataset>(
      RandomDatasetOptions{.num_samples = 20, .input_size = 6, .target_size = 3, .seed = 5});
  return job;
}

class Told final : public Observer {
 public:
  explicit Told(std::vector<std::pair<int64_t, double>>& evaluations) : evaluations_(evaluations) {}
  void OnEval(const EvalReport& report, ReportTime /*now*/) override {
    evaluations_.emplace_back(report.step, report.loss);
  }

 private:
  std::vector<std::pair<int64_t, double>>& evaluations_;
};

class Evaluation : public ResumeFixture {
 protected:
  using Stop = std::function<bool(const Trainer& trainer)>;

  // Two ranks go on from what is there. Returns the newest checkpoint afterwards.
  Checkpoint Go(const Job& job, const std::string& where, const Stop& stop = {}) {
    const std::string checkpoints = folder_ + "/" + where;
    const std::string attempt = "a" + std::to_string(++attempts_);
    WithGroup(2, [&](const auto& group, int rank) {
      Trainer trainer(job, PlanFor(job, 2), Mesh(group), nullptr, Log::ToStderr({}));
      trainer.Build();
      DrawWeights(trainer.model());
      trainer.SaveTo({.folder = checkpoints, .attempt = attempt}, RankPart{rank, 2});
      if (const NewestCheckpoint newest = ValueOrThrow(OpenNewest(checkpoints));
          newest.checkpoint) {
        trainer.Restore(*newest.checkpoint);
        if (OwesEvaluation(newest.checkpoint->run())) trainer.EvaluateFirst();
      }
      if (stop) trainer.StopWhen([&] { return stop(trainer); });
      Observers observers;
      observers.Add(std::make_unique<Told>(evaluations_));
      trainer.Fit(rank == 0 ? &observers : nullptr);
      if (rank == 0) stopped_ = trainer.stopped();
      trainer.WaitForAllRanks();
    });
    return *ValueOrThrow(OpenNewest(checkpoints)).checkpoint;
  }

  std::vector<std::pair<int64_t, double>> evaluations_;
  bool stopped_ = false;
};

TEST_F(Evaluation, ComesEverySoManyStepsOrEpochsAndAtTheEnd) {
  const auto steps = [&](const std::string& every) {
    evaluations_.clear();
    Go(OpenEvaluating({"evaluation.eval_steps=" + every}), every);
    std::vector<int64_t> found;
    for (const auto& [step, loss] : evaluations_) found.push_back(step);
    return found;
  };
  // Three epochs of five steps.
  EXPECT_THAT(steps("4"), ElementsAre(4, 8, 12, 15));
  EXPECT_THAT(steps("1 epoch"), ElementsAre(5, 10, 15));
  EXPECT_THAT(steps("0.5 epochs"), ElementsAre(3, 5, 8, 10, 13, 15));
  EXPECT_THAT(steps("2 epochs"), ElementsAre(10, 15));
  EXPECT_THAT(steps("0"), ElementsAre(15));
}

TEST_F(Evaluation, IsLeftToTheNextStartWhereTheRunIsToStop) {
  Job job = OpenEvaluating();
  const ResumeOutcome whole{.tensors = TensorsOf(Go(job, "whole"))};
  const auto expected = std::exchange(evaluations_, {});
  ASSERT_EQ(expected.size(), 3U);
  EXPECT_FALSE(stopped_);

  // In the middle of the evaluation of step 5, where one rank is asked to.
  std::atomic<int> batches = 0;
  job.validation = std::make_unique<WatchedDataset>(std::move(job.validation), [&] { ++batches; });
  const Checkpoint first = Go(job, "parts", [&](const Trainer& trainer) {
    return trainer.mesh().world.rank == 1 && batches >= 2;
  });
  EXPECT_TRUE(stopped_);
  EXPECT_EQ(first.step(), 5);
  EXPECT_TRUE(OwesEvaluation(first.run()));
  EXPECT_THAT(evaluations_, ElementsAre());
  // Before that of the last step.
  const Checkpoint last =
      Go(job, "parts", [](const Trainer& trainer) { return trainer.step() == 15; });
  EXPECT_TRUE(stopped_);
  EXPECT_EQ(last.step(), 15);
  EXPECT_TRUE(OwesEvaluation(last.run()));

  const ResumeOutcome parts{.tensors = TensorsOf(Go(job, "parts"))};
  EXPECT_FALSE(stopped_);
  EXPECT_EQ(evaluations_, expected);
  ExpectSameEnd(parts, whole);
}

TEST_F(Evaluation, OfAStateThatMayBeTheBestComesBeforeTheRunStops) {
  const Job job = OpenEvaluating({"checkpoint.save_best=loss"});
  const Checkpoint checkpoint =
      Go(job, "best", [](const Trainer& trainer) { return trainer.step() == 5; });
  EXPECT_TRUE(stopped_);
  EXPECT_EQ(checkpoint.step(), 5);
  EXPECT_FALSE(OwesEvaluation(checkpoint.run()));
  EXPECT_EQ(evaluations_.size(), 1U);
}

TEST_F(Evaluation, ThatDoesNotImproveEndsTheRunAlsoAfterAResume) {
  // The weights hardly move, so that only the first evaluation improves the loss by 1.
  const Job job = OpenEvaluating({"evaluation.eval_steps=2", "optimizer.learning_rate=1e-6",
                                  "evaluation.early_stopping_patience=3",
                                  "evaluation.early_stopping_threshold=1"});
  const Checkpoint whole = Go(job, "whole");
  EXPECT_FALSE(stopped_);  // the run is done
  EXPECT_EQ(whole.step(), 8);
  const auto expected = std::exchange(evaluations_, {});
  EXPECT_EQ(expected.size(), 4U);
  const ResumeOutcome end{.tensors = TensorsOf(whole)};

  Go(job, "parts", [](const Trainer& trainer) { return trainer.step() == 5; });
  EXPECT_TRUE(stopped_);
  const Checkpoint resumed = Go(job, "parts");
  EXPECT_FALSE(stopped_);
  EXPECT_EQ(evaluations_, expected);
  ExpectSameEnd({.tensors = TensorsOf(resumed)}, end);

  // A start after the end has nothing to do; with more patience it goes on.
  EXPECT_EQ(Go(job, "parts").step(), 8);
  EXPECT_EQ(evaluations_, expected);
  const Job patient = OpenEvaluating({"evaluation.eval_steps=2", "optimizer.learning_rate=1e-6",
                                      "evaluation.early_stopping_patience=4",
                                      "evaluation.early_stopping_threshold=1"});
  EXPECT_EQ(Go(patient, "parts").step(), 10);
}

TEST_F(Evaluation, ThatFailsOnOneRankKeepsTheWeights) {
  // The other rank waits to be ended.
  Job job = OpenEvaluating({"comm.train_timeout_seconds=5"});
  std::atomic<int> batches = 0;
  job.validation = std::make_unique<WatchedDataset>(std::move(job.validation), [&] {
    if (++batches == 7) throw std::runtime_error("no such sample");
  });
  EXPECT_THROW(Go(job, "failed"), std::exception);
  const NewestCheckpoint newest = ValueOrThrow(OpenNewest(folder_ + "/failed"));
  ASSERT_TRUE(newest.checkpoint);
  EXPECT_EQ(newest.checkpoint->step(), 5);
  EXPECT_TRUE(OwesEvaluation(newest.checkpoint->run()));
}

// Finite losses with infinite gradients come from inputs of 1.7e20 and a weight of 0.01.
TEST_F(Evaluation, OfBadGradientsEndsTheRunBeforeTheUpdate) {
  class LargeInputs final : public Dataset {
   public:
    int64_t size() const override { return 4; }
    DataShape shape() const override { return {.input = {1}, .target = {1}}; }
    Batch Get(std::span<const int64_t> indices) const override {
      const auto count = static_cast<int64_t>(indices.size());
      return {.inputs = at::full({count, 1}, 1.7e20),
              .targets = at::zeros({count, 1}),
              .samples = count,
              .predictions = count};
    }
  };
  for (const double max_norm : {1.0, 0.0}) {
    Job job = OpenResumeJob({"model.layer_sizes=[1, 1]", "data.input_size=1", "data.target_size=1",
                             "training.max_grad_norm=" + std::to_string(max_norm)},
                            kEvaluating);
    job.train = std::make_unique<LargeInputs>();
    Trainer trainer(job, PlanFor(job, 1), {}, nullptr, Log::ToStderr({}));
    trainer.Build();
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor& parameter : trainer.model().parameters()) parameter.fill_(0);
      trainer.model().parameters()[0].fill_(0.01);
    }
    trainer.SaveTo({.folder = folder_ + "/bad", .attempt = "a"}, RankPart());
    try {
      trainer.Fit(nullptr);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().title, "GRADIENT IS NO NUMBER");
      EXPECT_EQ(failure.error().where, "step 1");
    }
    EXPECT_EQ(trainer.model().parameters()[0].isfinite().all().item<bool>(), max_norm > 0);
    EXPECT_FALSE(ValueOrThrow(OpenNewest(folder_ + "/bad")).checkpoint);
  }
}

}  // namespace
}  // namespace ddprun::trainer
