// A run that is interrupted after any step goes on as if nothing had happened: the same weights,
// optimizer and numbers told, bit for bit.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <fstream>

#include "tests/trainer/loop/resume_fixture.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/job/plan_job.h"

namespace ddprun::trainer {
namespace {

using testing::HasSubstr;

struct ResumeCase {
  std::string name;
  std::vector<std::string> overrides;
  int ranks = 1;
  bool lengths = false;
};

const std::vector<std::string> kSmallGpt = {"model.type=gpt",
                                            "model.layer_sizes=[]",
                                            "model.hidden_size=8",
                                            "model.num_hidden_layers=1",
                                            "model.num_attention_heads=2",
                                            "model.dropout=0.2",
                                            "data.format=text",
                                            "data.num_samples=0",
                                            "data.input_size=0",
                                            "data.target_size=0",
                                            "data.max_seq_length=16"};

class EveryStep : public ResumeFixture, public testing::WithParamInterface<ResumeCase> {
 protected:
  Job Open() const {
    std::vector<std::string> overrides = GetParam().overrides;
    if (GetParam().name == "Csv") {
      std::ofstream file(folder_ + "/rows.csv");
      file << "a,b,c\n";
      for (int i = 0; i < 20; ++i) file << i << "," << i * i % 7 << "," << i % 3 << "\n";
      file.close();
      overrides.push_back("data.train_files=" + folder_ + "/rows.csv");
    }
    if (overrides.size() >= kSmallGpt.size() && overrides[0] == kSmallGpt[0]) {
      std::string text;
      for (int i = 0; i <= 20 * 16; ++i) text += static_cast<char>('a' + i * i % 23);
      std::ofstream(folder_ + "/text.txt") << text;
      overrides.push_back("data.train_files=" + folder_ + "/text.txt");
    }
    if (GetParam().ranks == 2) overrides.push_back("training.per_device_train_batch_size=2");
    Job job = OpenResumeJob(overrides);
    if (GetParam().lengths) {
      for (int64_t i = 0; i < job.train->size(); ++i) job.train_lengths.push_back(i * i % 11);
    }
    return job;
  }
};

TEST_P(EveryStep, GoesOnBitForBit) {
  const Job job = Open();
  const int ranks = GetParam().ranks;
  const ResumeOutcome whole = Run(job, ranks, "whole");
  const auto steps = static_cast<int64_t>(whole.steps.size());
  ASSERT_GE(steps, 9);
  for (int64_t stop = 1; stop < steps; ++stop) {
    SCOPED_TRACE("interrupted after step " + std::to_string(stop));
    const std::string where = "stop" + std::to_string(stop);
    Run(job, ranks, where, stop);
    const ResumeOutcome rest = Run(job, ranks, where);
    ASSERT_EQ(static_cast<int64_t>(rest.steps.size()), steps - stop);
    for (size_t i = 0; i < rest.steps.size(); ++i) {
      EXPECT_TRUE(Same(rest.steps[i], whole.steps[static_cast<size_t>(stop) + i])) << i;
    }
    ExpectSameEnd(rest, whole);
  }
}

std::vector<std::string> SmallGptWith(const std::vector<std::string>& more) {
  std::vector<std::string> overrides = kSmallGpt;
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

INSTANTIATE_TEST_SUITE_P(
    Variants,
    EveryStep,
    testing::Values(
        ResumeCase{"Plain", {}},
        ResumeCase{"PlainOnTwo", {}, 2},
        ResumeCase{"Momentum", {"optimizer.type=sgd", "optimizer.momentum=0.9"}},
        ResumeCase{"Accumulation", {"training.gradient_accumulation_steps=2"}},
        ResumeCase{"AccumulationOnTwo", {"training.gradient_accumulation_steps=2"}, 2},
        ResumeCase{"Dropout", kSmallGpt},
        ResumeCase{"Bf16", SmallGptWith({"training.precision=bf16"})},
        // Scales that grow while some steps are skipped.
        ResumeCase{"Fp16",
                   {"training.precision=fp16", "training.init_loss_scale=1e9",
                    "training.loss_scale_growth_interval=2"},
                   2},
        // Its sums follow from the buckets, and gradients do not come in their first order. No
        // dropout: these ranks are threads, which share one random generator.
        ResumeCase{"RingOnFour",
                   SmallGptWith({"model.dropout=0", "comm.algorithm=ring",
                                 "strategy.first_bucket_mb=0.0001", "strategy.bucket_cap_mb=0.0003",
                                 "training.per_device_train_batch_size=1"}),
                   4},
        ResumeCase{
            "PowerSgd", {"strategy.comm_hook=power_sgd", "strategy.power_sgd_start_step=3"}, 2},
        ResumeCase{"PostLocalSgd",
                   {"strategy.comm_hook=post_local_sgd", "strategy.post_local_sgd_start_step=4",
                    "report.logging_steps=1"},
                   2},
        ResumeCase{"UpdateInBackward",
                   {"strategy.optimizer_in_backward=true", "training.max_grad_norm=0"},
                   2},
        ResumeCase{"Averages", {"optimizer.ema_decay=0.9"}, 2},
        // Each evaluation lowers the learning rate.
        ResumeCase{"Plateau",
                   SmallGptWith({"model.dropout=0", "data.validation_fraction=0.2",
                                 "evaluation.eval_steps=2", "checkpoint.save_best=loss",
                                 "scheduler.lr_scheduler_type=reduce_lr_on_plateau",
                                 "scheduler.plateau_patience=0", "scheduler.plateau_threshold=0.9",
                                 "scheduler.plateau_factor=0.5"}),
                   2},
        ResumeCase{"LengthGrouped", {}, 1, true},
        ResumeCase{"LengthGroupedOnTwo", {}, 2, true},
        ResumeCase{"Csv",
                   {"data.format=csv", "data.label_column=c", "data.num_samples=0",
                    "data.input_size=0", "data.target_size=0", "model.layer_sizes=[2,4,3]"}}),
    [](const auto& test) { return test.param.name; });

// Every step of three micro-batches may be given up before the second and before the third one.
class GivenUp : public ResumeFixture, public testing::WithParamInterface<ResumeCase> {};

TEST_P(GivenUp, StepIsDoneAgainBitForBit) {
  // Weights that can be read in parts: of zero3 no rank has the whole.
  Run(OpenResumeJob({}), 1, "weights", 1);
  std::vector<std::string> overrides = {
      "model.name_or_path=" + folder_ + "/weights/step-1", "training.gradient_accumulation_steps=3",
      "training.per_device_train_batch_size=1", "data.num_samples=24", "run.max_epochs=1"};
  overrides.insert(overrides.end(), GetParam().overrides.begin(), GetParam().overrides.end());
  const Job job = OpenResumeJob(overrides);
  const int ranks = GetParam().ranks;
  const ResumeOutcome whole = Run(job, ranks, "whole");
  const auto steps = static_cast<int64_t>(whole.steps.size());
  ASSERT_GE(steps, 2);
  for (const int part : {1, 2}) {
    for (int64_t stop = 1; stop + 1 < steps; ++stop) {
      SCOPED_TRACE("step " + std::to_string(stop + 1) + ", part " + std::to_string(part));
      const std::string where = std::to_string(part) + "stop" + std::to_string(stop);
      Run(job, ranks, where, stop, part);
      const ResumeOutcome rest = Run(job, ranks, where);
      ASSERT_EQ(static_cast<int64_t>(rest.steps.size()), steps - stop);
      for (size_t i = 0; i < rest.steps.size(); ++i) {
        EXPECT_TRUE(Same(rest.steps[i], whole.steps[static_cast<size_t>(stop) + i])) << i;
      }
      ExpectSameEnd(rest, whole);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Variants,
    GivenUp,
    testing::Values(
        ResumeCase{"Single", {}},
        ResumeCase{"Ddp", {}, 2},
        ResumeCase{"UpdateInBackward",
                   {"strategy.optimizer_in_backward=true", "training.max_grad_norm=0"},
                   2},
        ResumeCase{
            "PowerSgd", {"strategy.comm_hook=power_sgd", "strategy.power_sgd_start_step=2"}, 2},
        ResumeCase{"Zero1", {"strategy.type=zero1", "optimizer.ema_decay=0.9"}, 2},
        ResumeCase{"Zero2", {"strategy.type=zero2"}, 2},
        ResumeCase{"Zero3", {"strategy.type=zero3"}, 2},
        // One process has two of the four virtual ranks, the others have one.
        ResumeCase{"VirtualRanks", {"training.virtual_ranks=4", "run.max_epochs=3"}, 3}),
    [](const auto& test) { return test.param.name; });

class Resume : public ResumeFixture {};

TEST_F(Resume, GoesOnWithOtherNumbersOfRanksAndMicroBatches) {
  const std::string by_step = "data.sample_order=world_size_independent";
  const Job two = OpenResumeJob({by_step, "training.per_device_train_batch_size=2"});
  const Job one = OpenResumeJob({by_step});
  const Job halves = OpenResumeJob({by_step, "training.per_device_train_batch_size=2",
                                    "training.gradient_accumulation_steps=2"});
  const ResumeOutcome whole = Run(two, 2, "whole");
  std::vector<StepReport> steps;
  const auto go_on = [&](const Job& job, int ranks, int64_t stop) {
    const ResumeOutcome part = Run(job, ranks, "parts", stop);
    steps.insert(steps.end(), part.steps.begin(), part.steps.end());
  };
  go_on(two, 2, 3);
  go_on(one, 1, 7);
  go_on(halves, 1, 9);
  go_on(two, 2, -1);
  ASSERT_EQ(steps.size(), whole.steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR(steps[i].loss, whole.steps[i].loss, 1e-5) << i + 1;
    EXPECT_EQ(steps[i].step, whole.steps[i].step);
    EXPECT_EQ(steps[i].samples, whole.steps[i].samples);
  }
}

TEST_F(Resume, WithVirtualRanksHasTheSameBitsOnAnyNumberOfProcesses) {
  const Job job =
      OpenResumeJob({"training.virtual_ranks=4", "training.per_device_train_batch_size=1"});
  const ResumeOutcome whole = Run(job, 1, "whole");
  Run(job, 4, "parts", 4);
  Run(job, 2, "parts", 7);
  Run(job, 3, "parts", 9);
  ExpectSameEnd(Run(job, 1, "parts"), whole);
}

std::string RefusalOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.error().page + ": " + failure.error().what;
  }
  return "";
}

TEST_F(Resume, RefusesWhatIsAnotherRun) {
  Run(OpenResumeJob({}), 1, "run", 3);
  const auto refusal = [&](const std::vector<std::string>& overrides) {
    return RefusalOf([&] { Run(OpenResumeJob(overrides), 1, "run"); });
  };
  EXPECT_THAT(refusal({"model.layer_sizes=[6,9,3]"}), HasSubstr("model.layers.0.weight is"));
  EXPECT_THAT(refusal({"data.num_samples=24"}), HasSubstr("saved-position: The saved run had 20"));
  EXPECT_THAT(refusal({"data.data_seed=7"}), HasSubstr("saved-position:"));
  EXPECT_THAT(refusal({"optimizer.type=sgd", "optimizer.momentum=0.9"}),
              HasSubstr("state-does-not-fit"));
  EXPECT_THAT(refusal({"training.per_device_train_batch_size=2"}),
              HasSubstr("cannot-resume: A step of the saved run took 4 samples on 1 rank; here "));
  EXPECT_EQ(refusal({"training.per_device_train_batch_size=2", "run.max_steps=9"}), "");
}

TEST_F(Resume, RefusesOtherPaddingInTheMiddleOfAnEpoch) {
  const std::string odd = "data.num_samples=21";
  Run(OpenResumeJob({odd, "training.per_device_train_batch_size=2"}), 2, "run", 3);
  EXPECT_THAT(RefusalOf([&] { Run(OpenResumeJob({odd}), 1, "run"); }),
              HasSubstr("cannot-resume: Its 2 ranks padded an epoch to 22 samples, 1 make it 21"));
}

TEST_F(Resume, GoesOnWithOtherStepsOfOtherRanks) {
  const Job job = OpenResumeJob({"data.num_samples=21", "run.max_steps=30"});
  int64_t done = 0;
  for (const int ranks : {2, 1, 3, 2, 1}) {  // whatever the position, also at the end of an epoch
    done += ranks == 1 ? 5 : 2;
    const std::vector<StepReport> steps = Run(job, ranks, "run", done).steps;
    ASSERT_FALSE(steps.empty());
    EXPECT_EQ(steps.back().step, done);
  }
}

TEST_F(Resume, GoesOnWithoutAnEndOfAnEpochThatIsDropped) {
  const auto job = [](int samples, int batch) {
    return OpenResumeJob({"data.dataloader_drop_last=true",
                          "data.num_samples=" + std::to_string(samples),
                          "training.per_device_train_batch_size=" + std::to_string(batch)});
  };
  const ResumeOutcome whole = Run(job(21, 4), 1, "whole");
  std::vector<StepReport> steps = Run(job(21, 2), 2, "parts", 8).steps;
  for (const StepReport& step : Run(job(21, 4), 1, "parts").steps) steps.push_back(step);
  ASSERT_EQ(steps.size(), whole.steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR(steps[i].loss, whole.steps[i].loss, 1e-5) << i + 1;
  }
  // Here padding makes a batch whole.
  Run(job(23, 2), 2, "padded", 3);
  EXPECT_THAT(RefusalOf([&] { Run(job(23, 4), 1, "padded"); }), HasSubstr("cannot-resume"));
}

TEST_F(Resume, RefusesAnEpochOfOtherWholeBatches) {
  const auto job = [](const char* batch, const char* accumulation, const char* drops) {
    return OpenResumeJob({"data.num_samples=20", std::string("data.dataloader_drop_last=") + drops,
                          std::string("training.per_device_train_batch_size=") + batch,
                          std::string("training.gradient_accumulation_steps=") + accumulation});
  };
  Run(job("4", "2", "true"), 1, "run", 3);
  const auto refusal = [&](const Job& other, int ranks) {
    return RefusalOf([&] { Run(other, ranks, "run"); });
  };
  EXPECT_THAT(refusal(job("4", "1", "true"), 2), HasSubstr("An epoch had 20 samples"));
  EXPECT_THAT(refusal(job("8", "1", "true"), 1), HasSubstr("has 16 here"));
  EXPECT_EQ(refusal(job("4", "2", "false"), 1), "");
  Run(job("8", "1", "false"), 1, "all", 3);
  EXPECT_THAT(RefusalOf([&] { Run(job("8", "1", "true"), 1, "all"); }), HasSubstr("has 16 here"));
}

TEST_F(Resume, NamesChangedKeysThatMatter) {
  Run(OpenResumeJob({}), 1, "run", 3);
  const NewestCheckpoint newest = ValueOrThrow(OpenNewest(folder_ + "/run"));
  ASSERT_TRUE(newest.checkpoint.has_value());
  const Job job = OpenResumeJob(
      {"optimizer.learning_rate=0.5", "run.max_epochs=4", "run.name=b", "report.logging_steps=1"});
  EXPECT_THAT(
      CompareRuns(*newest.checkpoint, job, PlanFor(job, 1)),
      testing::ElementsAre("run.max_epochs was 3 until here, and is 4 from here on.",
                           "optimizer.learning_rate was 0.0003 until here, and is 0.5 from here "
                           "on."));
}

// The state as it is in `from`, changed, in `to`.
void CopyCheckpoint(const std::string& from,
                    const std::string& to,
                    const std::function<void(StateDict&)>& change) {
  const NewestCheckpoint newest = ValueOrThrow(OpenNewest(from));
  ASSERT_TRUE(newest.checkpoint.has_value());
  StateDict state{.tensors = {}, .numbers = newest.checkpoint->numbers()};
  for (const auto& [name, tensor] : newest.checkpoint->tensors()) {
    state.tensors.push_back({.name = name,
                             .tensor = newest.checkpoint->Read(name),
                             .global_shape = tensor.shape,
                             .offset = std::vector<int64_t>(tensor.shape.size())});
  }
  change(state);
  const SaveOutcome saved = SaveCheckpoint(
      {.folder = to}, state,
      {.step = newest.checkpoint->step(), .attempt = "c", .run = newest.checkpoint->run()});
  ASSERT_FALSE(saved.error.has_value());
}

// Nothing in a checkpoint is there in vain, and nothing may be missing.
TEST_F(Resume, NeedsEachItemOfTheState) {
  Job job = OpenResumeJob({"evaluation.eval_steps=1", "checkpoint.save_best=loss",
                           "checkpoint.save_total_limit=0", "checkpoint.save_total_limit_best=0",
                           "optimizer.ema_decay=0.9"});
  job.validation = std::make_unique<DatasetPart>(*job.train, 5, [](int64_t i) { return i; });
  Run(job, 1, "run", 4);
  const auto observed = [&](const std::string& where) {
    const ResumeOutcome rest = Run(job, 1, where);
    std::vector<double> seen;
    for (const StepReport& step : rest.steps) {
      for (const double number : {static_cast<double>(step.step), step.epoch, step.loss,
                                  step.mean_loss, std::floor(step.run_seconds / 1000)}) {
        seen.push_back(number);
      }
    }
    for (const StoredCheckpoint& one : ValueOrThrow(ListCheckpoints(folder_ + "/" + where))) {
      seen.push_back(static_cast<double>(one.step));
      seen.push_back(one.score.value_or(-1));
    }
    return seen;
  };
  const auto unchanged = [](StateDict&) {};
  CopyCheckpoint(folder_ + "/run", folder_ + "/same", unchanged);
  const std::vector<double> expected = observed("same");
  const NewestCheckpoint newest = ValueOrThrow(OpenNewest(folder_ + "/run"));
  const size_t tensors = newest.checkpoint->tensors().size();
  int copies = 0;
  const auto check = [&](const std::string& name, const auto& change, const auto& remove) {
    const std::string where = "copy" + std::to_string(++copies);
    CopyCheckpoint(folder_ + "/run", folder_ + "/" + where, change);
    std::vector<double> seen;
    EXPECT_TRUE(RefusalOf([&] { seen = observed(where); }) != "" || seen != expected) << name;
    CopyCheckpoint(folder_ + "/run", folder_ + "/" + where + "b", remove);
    EXPECT_THAT(RefusalOf([&] { observed(where + "b"); }), HasSubstr("state-does-not-fit")) << name;
  };
  for (size_t i = 0; i < tensors; ++i) {
    std::string name;
    check(
        "tensor " + std::to_string(i),
        [&](StateDict& state) {
          name = state.tensors[i].name;
          // A best of minus infinity is never reached again; a long time is seen.
          state.tensors[i].tensor.fill_(name == "run.best" ? -1e30 : 5000);
        },
        [&](StateDict& state) {
          state.tensors.erase(state.tensors.begin() + static_cast<std::ptrdiff_t>(i));
        });
  }
  for (const auto& [name, number] : newest.checkpoint->numbers()) {
    check(
        name,
        [&, key = name](StateDict& state) { state.numbers[key] = state.numbers[key] == 0 ? 1 : 0; },
        [&, key = name](StateDict& state) { state.numbers.erase(key); });
  }
}

// The state keeps changing while it is copied, in every way that there is.
TEST_F(Resume, StoresTheStateOfOneStepHoweverLongTheCopyTakes) {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"strategy.optimizer_in_backward=true", "training.max_grad_norm=0"},
      {"strategy.comm_hook=power_sgd", "strategy.power_sgd_start_step=1"}};
  for (size_t i = 0; i < variants.size(); ++i) {
    std::vector<std::string> overrides = variants[i];
    for (const char* one : {"model.layer_sizes=[64,2048,512,64]", "data.input_size=64",
                            "data.target_size=64", "training.per_device_train_batch_size=2",
                            "run.max_epochs=1", "checkpoint.save_total_limit=0"}) {
      overrides.emplace_back(one);
    }
    const std::string often = "often" + std::to_string(i);
    overrides.emplace_back("checkpoint.save_steps=1");
    Run(OpenResumeJob(overrides), 2, often);
    overrides.back() = "checkpoint.save_steps=0";
    const Job job = OpenResumeJob(overrides);
    for (const StoredCheckpoint& stored : ValueOrThrow(ListCheckpoints(folder_ + "/" + often))) {
      if (stored.step == PlanFor(job, 2).total_steps) continue;
      const Result<Checkpoint> found = Checkpoint::Open(stored.path);
      ASSERT_TRUE(found.has_value());
      const std::string alone = often + "step" + std::to_string(stored.step);
      const ResumeOutcome expected = Run(job, 2, alone, stored.step);
      ExpectSameEnd({.tensors = TensorsOf(*found), .numbers = found->numbers()}, expected);
    }
  }
}

TEST_F(Resume, OfARunThatHasEndedDoesNothing) {
  const Job job = OpenResumeJob({});
  const ResumeOutcome whole = Run(job, 1, "run");
  const ResumeOutcome again = Run(job, 1, "run");
  EXPECT_TRUE(again.steps.empty());
  ExpectSameEnd(again, whole);
}

}  // namespace
}  // namespace ddprun::trainer
