// Runs that are stopped between two steps and go on in fresh objects.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/failure.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/config/read_config.h"
#include "trainer/job/open_job.h"
#include "trainer/job/plan_job.h"
#include "trainer/loop/trainer.h"
#include "trainer/worker/resume.h"

namespace ddprun::trainer {

// 20 samples: 5 steps an epoch of one rank, or of two with half the batch.
inline constexpr const char* kResumeConfig = R"({
  "run": {"max_epochs": 3},
  "model": {"type": "mlp", "layer_sizes": [6, 8, 3]},
  "data": {"format": "random", "num_samples": 20, "input_size": 6, "target_size": 3},
  "training": {"per_device_train_batch_size": 4},
  "report": {"logging_steps": 3},
  "checkpoint": {"save_steps": "1000 epochs"}})";

inline Job OpenResumeJob(const std::vector<std::string>& overrides,
                         const std::string& text = kResumeConfig) {
  const Environment environment;
  const Source source{Source::Kind::kFile, "train.json", text};
  Job job;
  job.config = ValueOrThrow(ReadConfigText(source, overrides, {environment, "/", "/"}));
  OpenParts(job, [](const auto& part) {
    part();
    return true;
  });
  return job;
}

struct ResumeOutcome {
  std::vector<StepReport> steps = {};              // rank 0's
  std::vector<double> evaluations = {};            // losses
  std::map<std::string, at::Tensor> tensors = {};  // of the last checkpoint
  std::map<std::string, int64_t> numbers = {};
};

class StepLog final : public Observer {
 public:
  explicit StepLog(ResumeOutcome& outcome) : outcome_(outcome) {}
  void OnStep(const StepReport& report, ReportTime /*now*/) override {
    outcome_.steps.push_back(report);
  }
  void OnEval(const EvalReport& report, ReportTime /*now*/) override {
    outcome_.evaluations.push_back(report.loss);
  }
  void OnCheckpoint(const CheckpointReport& report, ReportTime /*now*/) override {
    EXPECT_EQ(report.error, "");
  }

 private:
  ResumeOutcome& outcome_;
};

inline std::map<std::string, at::Tensor> TensorsOf(const Checkpoint& checkpoint) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : checkpoint.tensors()) tensors[name] = checkpoint.Read(name);
  tensors.erase("run.seconds");
  return tensors;
}

// Draws equal weights on all ranks, which as threads would otherwise share one generator.
inline void DrawWeights(const Model& model) {
  const at::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (at::Tensor& parameter : model.parameters()) {
    parameter.copy_(Random(parameter.sizes(), seed++).mul_(0.3));
  }
}

class ResumeFixture : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    std::string pattern = testing::TempDir() + "resume_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // From the newest checkpoint in `where`, if there is one, to the end or the step `stop`; with
  // `give_up`, to where ranks ask each other for the so-manieth time in the step after it.
  ResumeOutcome Run(
      const Job& job, int ranks, const std::string& where, int64_t stop = -1, int give_up = 0) {
    ResumeOutcome outcome;
    const std::string checkpoints = folder_ + "/" + where;
    const std::string attempt = "a" + std::to_string(++attempts_);
    const auto body = [&](const Mesh& mesh) {
      Trainer trainer(job, PlanFor(job, mesh.world.size), mesh, nullptr, Log::ToStderr({}));
      trainer.Build();
      if (job.config.model.name_or_path.empty()) DrawWeights(trainer.model());
      trainer.SaveTo({.folder = checkpoints, .attempt = attempt},
                     RankPart{.rank = mesh.world.rank, .size = mesh.world.size});
      const NewestCheckpoint newest = ValueOrThrow(OpenNewest(checkpoints));
      if (newest.checkpoint) {
        CompareRuns(*newest.checkpoint, job, trainer.plan());
        trainer.Restore(*newest.checkpoint);
      }
      if (give_up == 0) trainer.StopWhen([&] { return trainer.step() == stop; });
      int asked = -1;  // between the two steps
      if (give_up > 0)
        trainer.StopWithin([&] {
          constexpr double kForEver = std::numeric_limits<double>::infinity();
          const bool late =
              mesh.world.rank + 1 == ranks && trainer.step() == stop && ++asked >= give_up;
          return StopGrace{.whole = 1e-9, .left = late ? 2e-10 : kForEver};
        });
      Observers observers;
      observers.Add(std::make_unique<StepLog>(outcome));
      trainer.Fit(mesh.world.rank == 0 ? &observers : nullptr);
      EXPECT_EQ(trainer.stopped(), stop > 0);
      EXPECT_EQ(trainer.gave_up_step(), give_up > 0);
      if (mesh.world.rank == 0 && stop > 0) {
        EXPECT_EQ(trainer.step(), stop);
      }
      trainer.WaitForAllRanks();
    };
    const ParallelDims dims = ValueOrThrow(ResolveDims(job.config, ranks));
    if (!dims.needs_group()) {
      body({});
    } else {
      WithGroup(ranks, [&](const auto& group, int) {
        group->SetAllReduceAlgorithm(job.config.comm.algorithm);
        body(MakeMesh(group, dims));
      });
    }
    const NewestCheckpoint last = ValueOrThrow(OpenNewest(checkpoints));
    if (!last.checkpoint) {
      ADD_FAILURE() << "no checkpoint in " << checkpoints;
      return outcome;
    }
    outcome.tensors = TensorsOf(*last.checkpoint);
    outcome.numbers = last.checkpoint->numbers();
    return outcome;
  }

  // All but the times.
  static bool Same(const StepReport& a, const StepReport& b) {
    const bool same_norm =
        a.grad_norm == b.grad_norm || (std::isnan(a.grad_norm) && std::isnan(b.grad_norm));
    return a.step == b.step && a.epoch == b.epoch && a.reported == b.reported && a.loss == b.loss &&
           a.mean_loss == b.mean_loss && a.learning_rate == b.learning_rate && same_norm &&
           a.loss_scale == b.loss_scale && a.samples == b.samples && a.weight == b.weight &&
           a.tokens == b.tokens;
  }
  static void ExpectSameEnd(const ResumeOutcome& found, const ResumeOutcome& expected) {
    EXPECT_EQ(found.numbers, expected.numbers);
    ASSERT_EQ(found.tensors.size(), expected.tensors.size());
    for (const auto& [name, tensor] : expected.tensors) {
      ASSERT_TRUE(found.tensors.contains(name)) << name;
      // NaN is what there is before the first evaluation.
      EXPECT_TRUE(at::allclose(found.tensors.at(name), tensor, 0, 0, /*equal_nan=*/true)) << name;
    }
  }

  std::string folder_;
  int attempts_ = 0;
};

}  // namespace ddprun::trainer
