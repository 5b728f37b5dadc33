// Every call that reads or changes a file fails in turn in a run that evaluates: no checkpoint and
// no evaluation is lost or wrong without a word, and the next start brings the run to its end.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "tests/trainer/checkpoint/failing_disk.h"
#include "tests/trainer/loop/resume_fixture.h"
#include "trainer/data/data_files.h"
#include "trainer/job/plan_job.h"
#include "trainer/worker/rank_zero.h"

namespace ddprun::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({
  "run": {"name": "run", "max_steps": 2, "resume": "auto"},
  "model": {"type": "mlp", "layer_sizes": [6, 8, 3]},
  "data": {"format": "random", "num_samples": 20, "input_size": 6, "target_size": 3},
  "training": {"per_device_train_batch_size": 4, "per_device_eval_batch_size": 2},
  "evaluation": {"eval_steps": 1},
  "report": {"logging_steps": 1},
  "checkpoint": {"save_best": "loss", "save_total_limit": 1, "save_at_end": false}})";

// Three samples in a file each, as images are.
class SampleFiles final : public Dataset {
 public:
  explicit SampleFiles(std::string folder) : folder_(std::move(folder)) {
    for (int64_t i = 0; i < size(); ++i) {
      const at::Tensor sample = Random({9}, 70 + i);
      std::ofstream(PathOf(i), std::ios::binary)
          .write(static_cast<const char*>(sample.const_data_ptr()), kBytes);
    }
  }
  int64_t size() const override { return 3; }
  DataShape shape() const override { return {.input = {6}, .target = {3}}; }
  Batch Get(std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    const at::Tensor all = at::zeros({count, 9});
    for (int64_t i = 0; i < count; ++i) {
      const FileBytes bytes = ReadDataFile(PathOf(indices[i]));
      std::memcpy(all[i].mutable_data_ptr(), bytes.text().data(), bytes.text().size());
    }
    return {.inputs = all.slice(1, 0, 6).contiguous(),
            .targets = all.slice(1, 6).contiguous(),
            .samples = count,
            .predictions = count};
  }

 private:
  static constexpr std::streamsize kBytes = 9 * sizeof(float);
  std::string PathOf(int64_t index) const { return folder_ + "/" + std::to_string(index); }

  const std::string folder_;
};

struct Ended {
  std::string out = {};
  std::optional<Error> error = {};
  bool Says(const std::string& text) const { return out.find(text) != out.npos; }
};

class EvaluationFault : public ResumeFixture {
 protected:
  void SetUp() override {
    ResumeFixture::SetUp();
    fs::create_directories(folder_ + "/samples");
    job_ = OpenResumeJob({"run.output_dir=" + runs() + "/{name}"}, kConfig);
    job_.validation = std::make_unique<SampleFiles>(folder_ + "/samples");
    const Ended ended = Go();
    ASSERT_FALSE(ended.error) << ended.error->what;
    expected_ = LossesOf("run");
    ASSERT_EQ(expected_.size(), 2U);
    ASSERT_GT(expected_.at(2), 0);
  }

  std::string runs() const { return folder_ + "/runs"; }

  Ended Go() const {
    Ended ended;
    testing::internal::CaptureStdout();
    try {
      const Environment environment;
      const StopRequest stop(job_.config.run, environment);
      Trainer trainer(job_, PlanFor(job_, 1), {}, nullptr, Log::ToStderr({}));
      TrainAsRankZero(job_, {}, environment, nullptr, stop, trainer);
    } catch (const Failure& failure) {
      ended.error = failure.error();
    }
    ended.out = testing::internal::GetCapturedStdout();
    return ended;
  }

  // By step, from the run's metrics, whose lines are whole.
  std::map<int64_t, double> LossesOf(const std::string& run) const {
    std::map<int64_t, double> losses;
    std::ifstream file(runs() + "/" + run + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      EXPECT_FALSE(file.eof()) << "no end: " << line;
      const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      EXPECT_TRUE(json.is_object()) << line;
      if (!json.is_object() || json.value("split", "") != "validation") continue;
      const bool added = losses.emplace(json.at("step"), json.at("loss")).second;
      EXPECT_TRUE(added) << "twice: " << line;
    }
    return losses;
  }

  // The newest checkpoint's step, 0 without one. None is damaged.
  int64_t NewestOf(const std::string& run) const {
    const NewestCheckpoint newest = ValueOrThrow(OpenNewest(runs() + "/" + run + "/checkpoints"));
    EXPECT_TRUE(newest.skipped.empty()) << newest.skipped[0].what;
    return newest.checkpoint ? newest.checkpoint->step() : 0;
  }

  bool HasBest() const {
    double best = INFINITY;
    for (const auto& [step, loss] : expected_) best = std::min(best, loss);
    const auto stored = ValueOrThrow(ListCheckpoints(runs() + "/run/checkpoints"));
    return std::ranges::any_of(stored, [&](const auto& item) { return item.score == best; });
  }

  int RunOn(const Fault& fault) {
    SCOPED_TRACE("errno " + std::to_string(fault.error_number) + " at call " +
                 std::to_string(fault.from) + ", " + std::to_string(fault.count) + " of them");
    fs::remove_all(runs());
    FailingDisk disk(fault, /*reads=*/true);
    Ended ended;
    {
      const WatchFiles watch(folder_, disk);
      ended = Go();
    }
    const bool metrics_lost = ended.Says("warning: metrics are being lost");
    for (const auto& [step, loss] : LossesOf("run")) EXPECT_EQ(loss, expected_.at(step));
    if (ended.error) {
      EXPECT_FALSE(ended.error->where.empty() || ended.error->what.empty() ||
                   ended.error->hint.empty())
          << ended.error->where << ": " << ended.error->what;
    } else {
      EXPECT_TRUE(metrics_lost || LossesOf("run") == expected_) << ended.out;
    }
    // What was trained is saved, or the run says that it is not.
    const int64_t trained = ended.Says("step 2/2  loss") ? 2 : ended.Says("step 1/2  loss") ? 1 : 0;
    const bool saved = !ended.Says("warning: no checkpoint of step");
    if (saved) {
      EXPECT_EQ(NewestOf("run"), trained) << ended.out;
      EXPECT_TRUE(ended.error || HasBest()) << ended.out;
    }
    const int64_t before = NewestOf("run");
    const Ended again = Go();
    EXPECT_FALSE(again.error) << again.error->what;
    const std::string run = fs::exists(runs() + "/run-2") ? "run-2" : "run";
    EXPECT_TRUE(run == "run" || before == 0) << ended.out << again.out;
    EXPECT_EQ(NewestOf(run), 2) << ended.out << again.out;
    EXPECT_TRUE((metrics_lost && run == "run") || LossesOf(run) == expected_)
        << ended.out << again.out;
    return disk.calls();
  }

  Job job_;
  std::map<int64_t, double> expected_;
};

TEST_F(EvaluationFault, LosesNothingWithoutAWord) {
  FailEachCall(40, [&](const Fault& fault) { return RunOn(fault); });
}

}  // namespace
}  // namespace ddprun::trainer
