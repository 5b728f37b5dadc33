// Every call that reads or changes a file fails in turn while a run is taken up: its checkpoints
// and the metrics up to there are as they were, the error says what and where, and the next try
// succeeds.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "base/failure.h"
#include "tests/trainer/checkpoint/failing_disk.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/config/read_config.h"
#include "trainer/report/metrics_file.h"
#include "trainer/worker/resume.h"

namespace ddprun::trainer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLast = 4;  // of the run's checkpoints; it is damaged

std::string TextOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// By path from `folder` on.
std::map<std::string, std::string> FilesIn(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[fs::relative(entry.path(), folder).string()] = TextOf(entry.path());
  }
  return files;
}

std::string Lines(int64_t steps) {
  std::string lines;
  for (int64_t step = 1; step <= steps; ++step) {
    lines += R"({"ts":1.5,"split":"train","step":)" + std::to_string(step) + "}\n";
  }
  return lines;
}

class ResumeFault : public testing::Test {
 protected:
  void SetUp() override {
    const Config config = ConfigWith("never");
    RunStart start = ChooseRunStart(config, environment_, 1);
    BeginRun(start, config, environment_);
    at::Tensor weight = at::ones({3});
    for (int64_t step = 1; step <= kLast; ++step) {
      weight.fill_(step);
      const auto owner = [&](StateVisitor& visitor) {
        visitor.Section("model.");
        visitor.Tensor("weight", weight);
      };
      SaveCheckpoint({.folder = start.place.folder}, SaveState(owner),
                     {.step = step, .attempt = "a", .run = "{}"});
    }
    const std::string damaged = run_ + "/checkpoints/step-" + std::to_string(kLast);
    for (const auto& entry : fs::directory_iterator(damaged)) {
      if (entry.path().extension() == ".safetensors") fs::resize_file(entry.path(), 10);
    }
    std::ofstream(run_ + "/metrics.jsonl") << Lines(kLast);
    fs::copy(run_, saved_, fs::copy_options::recursive);
  }

  Config ConfigWith(const std::string& resume) const {
    const Source source{Source::Kind::kFile, "train.json", R"({
      "run": {"name": "run", "max_steps": 9},
      "model": {"type": "mlp", "layer_sizes": [2, 3]},
      "data": {"format": "random", "num_samples": 4, "input_size": 2, "target_size": 3}})"};
    return ValueOrThrow(
        ReadConfigText(source, {"run.resume=" + resume, "run.output_dir=" + runs_ + "/{name}"},
                       {environment_, "/", "/"}));
  }

  RunStart Resume(const Config& config) const {
    RunStart start = ChooseRunStart(config, environment_, 2);
    BeginRun(start, config, environment_);
    return start;
  }

  // Expects that the resumed run has lost no file, wherever a call failed.
  void ExpectNothingLost() const {
    const auto found = FilesIn(run_);
    std::multiset<std::string> contents;
    for (const auto& [path, text] : found) contents.insert(text);
    for (const auto& [path, text] : FilesIn(saved_)) {
      if (!path.starts_with("checkpoints/")) continue;
      if (path.starts_with("checkpoints/step-" + std::to_string(kLast))) {
        EXPECT_TRUE(contents.contains(text)) << path;  // it may have been set aside
      } else {
        EXPECT_TRUE(found.contains(path) && found.at(path) == text) << path;
      }
    }
    ASSERT_TRUE(found.contains("metrics.jsonl"));
    EXPECT_TRUE(found.at("metrics.jsonl").starts_with(Lines(kLast - 1)));
    EXPECT_TRUE(found.contains("config.resolved.json"));
  }

  // Takes the run up from `resume`, at a checkpoint of `step`, on such a disk. Returns the calls.
  int TakeUpOn(const Fault& fault, const std::string& resume, int64_t step) {
    SCOPED_TRACE("errno " + std::to_string(fault.error_number) + " at call " +
                 std::to_string(fault.from) + ", " + std::to_string(fault.count) + " of them");
    fs::remove_all(runs_);
    fs::create_directory(runs_);
    fs::copy(saved_, run_, fs::copy_options::recursive);
    const Config config = ConfigWith(resume);
    FailingDisk disk(fault, /*reads=*/true);
    std::optional<Error> error;
    std::string taken;
    {
      const WatchFiles watch(runs_, disk);
      try {
        taken = Resume(config).folder.path;
      } catch (const Failure& failure) {
        error = failure.error();
      }
    }
    ExpectNothingLost();
    if (error) {
      EXPECT_FALSE(error->where.empty() || error->what.empty() || error->hint.empty())
          << error->where << ": " << error->what;
      const RunStart again = Resume(config);
      taken = again.folder.path;
      EXPECT_EQ(again.checkpoint->step(), step);
    }
    EXPECT_EQ(TextOf(taken + "/metrics.jsonl"), Lines(step));
    ExpectNothingLost();
    return disk.calls();
  }

  const ScratchFolder folder_;
  const Environment environment_;
  const std::string runs_ = folder_.Path("runs");
  const std::string run_ = runs_ + "/run";
  const std::string saved_ = folder_.Path("saved");
};

TEST_F(ResumeFault, LosesNothingOfTheRunThatGoesOn) {
  FailEachCall(3, [&](const Fault& fault) { return TakeUpOn(fault, run_, kLast - 1); });
}

TEST_F(ResumeFault, LosesNothingOfTheRunThatAnotherBeginsFrom) {
  const std::string from = run_ + "/checkpoints/step-2";
  FailEachCall(3, [&](const Fault& fault) { return TakeUpOn(fault, from, 2); });
}

// A process that replaces rank 0 removes half a line, and nothing else.
TEST_F(ResumeFault, LosesNoWholeLineOfALostRankZero) {
  const std::string path = run_ + "/metrics.jsonl";
  FailEachCall(2, [&](const Fault& fault) {
    std::ofstream(path) << Lines(3) << R"({"ts":1.5,"split":"tr)";
    FailingDisk disk(fault, /*reads=*/true);
    std::optional<Result<WrittenSteps>> written;
    {
      const WatchFiles watch(run_, disk);
      written = CutLastLine(path);
    }
    EXPECT_TRUE(TextOf(path).starts_with(Lines(3)));
    if (written->has_value()) {
      EXPECT_EQ(TextOf(path), Lines(3));
      EXPECT_EQ((*written)->train, 3);
    }
    return disk.calls();
  });
}

}  // namespace
}  // namespace ddprun::trainer
