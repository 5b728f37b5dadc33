#include "trainer/report/run_reporter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>

#include "tests/trainer/report/scratch_folder.h"

namespace ddprun::trainer {
namespace {

class RunReporterTest : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    out_ = UniqueFd(::open(OutPath().c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    options_ = {
        .metrics_path = folder_ + "/metrics.jsonl", .logging_steps = 10, .line_fd = out_.get()};
  }
  std::string OutPath() const { return folder_ + "/out"; }

  std::unique_ptr<RunReporter> Make() {
    Result<std::unique_ptr<RunReporter>> reporter = RunReporter::Create(options_, {}, {100, 0});
    EXPECT_TRUE(reporter.has_value());
    return *std::move(reporter);
  }
  // A second per step, a hundred tokens per second.
  static void RunSteps(RunReporter* reporter, int64_t steps) {
    for (int64_t step = 1; step <= steps; ++step) {
      const auto time = static_cast<double>(step);
      reporter->OnStep({.step = step,
                        .max_steps = 25,
                        .loss = time,
                        .samples = 1,
                        .tokens = 100,
                        .step_seconds = 1},
                       {100 + time, time});
    }
  }

  UniqueFd out_;
  ReporterOptions options_;
};

TEST_F(RunReporterTest, ReportsTheFirstTheLastAndEveryTenthStep) {
  auto reporter = Make();
  RunSteps(reporter.get(), 25);
  const std::vector<std::string> lines = Lines(OutPath());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].substr(0, 10), "step  1/25");
  EXPECT_EQ(lines[1].substr(0, 10), "step 10/25");
  EXPECT_EQ(lines[2].substr(0, 10), "step 20/25");
  EXPECT_EQ(lines[3].substr(0, 10), "step 25/25");
}

TEST_F(RunReporterTest, ALineHasTheMeanLossSinceTheOneBeforeAndTheTimeLeft) {
  auto reporter = Make();
  RunSteps(reporter.get(), 10);
  // Steps 2 to 10.
  EXPECT_NE(Lines(OutPath()).at(1).find("loss  6.0000"), std::string::npos) << Contents(OutPath());
  EXPECT_NE(Lines(OutPath()).at(1).find("100 tokens/s"), std::string::npos);
  EXPECT_NE(Lines(OutPath()).at(1).find("left 0:15"), std::string::npos);
}

TEST_F(RunReporterTest, TheMetricsFileHasHeaderStepsEvaluationAndEnd) {
  auto reporter = Make();
  RunSteps(reporter.get(), 25);
  reporter->OnEval({.step = 25, .loss = 3}, {130, 30});
  reporter->OnEnd({.reason = "finished", .step = 25}, {131, 31});
  const std::vector<std::string> lines = Lines(options_.metrics_path);
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_NE(lines[0].find(R"("event":"start")"), std::string::npos);
  EXPECT_NE(lines[2].find(R"("step":10,)"), std::string::npos);
  EXPECT_NE(lines[5].find(R"("split":"validation")"), std::string::npos);
  EXPECT_NE(lines[6].find(R"("reason":"finished")"), std::string::npos);
}

TEST_F(RunReporterTest, AProgressBarIsBelowTheLinesUntilItIsFull) {
  options_.bar_fd = out_.get();
  auto reporter = Make();
  RunSteps(reporter.get(), 11);
  // The bar is removed for each line.
  EXPECT_NE(Contents(OutPath()).find("\r\x1b[Kstep 10/25"), std::string::npos);
  reporter->PrintLine("hello");
  EXPECT_TRUE(Contents(OutPath()).ends_with("\r\x1b[Khello\n")) << Contents(OutPath());
  RunSteps(reporter.get(), 25);
  reporter->PrintLine("run folder: x");
  reporter->OnEnd({.reason = "finished", .step = 25}, {111, 11});
  const std::vector<std::string> lines = Lines(OutPath());
  ASSERT_GE(lines.size(), 3U);
  EXPECT_EQ(lines.back(), "run folder: x");
  // A line of its own, and above what followed.
  EXPECT_NE(lines[lines.size() - 3].find("100%"), std::string::npos) << Contents(OutPath());
}

TEST_F(RunReporterTest, LostOutputIsSaidOnceAndTrainingGoesOn) {
  options_.line_fd = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  const UniqueFd full(options_.line_fd);
  auto reporter = Make();
  testing::internal::CaptureStderr();
  RunSteps(reporter.get(), 25);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: standard output is lost (No space left on device); the training goes on, its "
            "numbers are in " +
                options_.metrics_path + "\n");
  EXPECT_EQ(Lines(options_.metrics_path).size(), 5U);
}

TEST_F(RunReporterTest, LostMetricsAreSaidOnceAndTrainingGoesOn) {
  // A FIFO whose reader goes away stands for a disk that fails during the run.
  ASSERT_EQ(::mkfifo(options_.metrics_path.c_str(), 0600), 0);
  UniqueFd reader(::open(options_.metrics_path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto reporter = Make();
  const auto old_handler = std::signal(SIGPIPE, SIG_IGN);
  reader.reset();
  RunSteps(reporter.get(), 25);
  std::signal(SIGPIPE, old_handler);
  const std::vector<std::string> lines = Lines(OutPath());
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "warning: metrics are being lost from step 1 on: \"" + options_.metrics_path +
                          "\" cannot be written: Broken pipe.");
  EXPECT_EQ(lines[4].substr(0, 10), "step 25/25");
}

TEST_F(RunReporterTest, AFullDiskAtTheStartIsAnError) {
  options_.metrics_path = "/dev/full";
  const auto reporter = RunReporter::Create(options_, {}, {});
  ASSERT_FALSE(reporter.has_value());
  EXPECT_EQ(reporter.error().what, "\"/dev/full\" cannot be written: No space left on device.");
}

TEST(ProgressBarFd, IsNoneWhenOff) {
  EXPECT_EQ(ProgressBarFd(ProgressBarMode::kOff), -1);
}

}  // namespace
}  // namespace ddprun::trainer
