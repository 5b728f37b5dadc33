// The terminal and the metrics file, side by side as in a run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "base/failure.h"
#include "tests/trainer/report/scratch_folder.h"
#include "trainer/report/metrics_file.h"
#include "trainer/report/terminal.h"

namespace ddprun::trainer {
namespace {

class ObserversTest : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    out_ = UniqueFd(::open(OutPath().c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    metrics_path_ = folder_ + "/metrics.jsonl";
    options_ = {.line_fd = out_.get(), .numbers_in = metrics_path_};
  }
  std::string OutPath() const { return folder_ + "/out"; }

  Observers Begin() {
    Observers observers;
    Observer& terminal = observers.Add(std::make_unique<Terminal>(options_));
    observers.Add(std::make_unique<MetricsFile>(metrics_path_, terminal));
    observers.Notify(&Observer::OnBegin, RunHeader());
    return observers;
  }
  // A second per step, a hundred tokens per second; every tenth, the first and the last are told.
  static void RunSteps(const Observers& observers, int64_t steps) {
    for (int64_t step = 1; step <= steps; ++step) {
      observers.Notify(&Observer::OnStep,
                       StepReport{.step = step,
                                  .max_steps = 25,
                                  .reported = step == 1 || step == 25 || step % 10 == 0,
                                  .loss = 1,
                                  .mean_loss = 6,
                                  .samples = 1,
                                  .tokens = 100,
                                  .step_seconds = 1},
                       {100 + static_cast<double>(step), static_cast<double>(step)});
    }
  }

  UniqueFd out_;
  std::string metrics_path_;
  TerminalOptions options_;
};

TEST_F(ObserversTest, TheTerminalHasALineForEveryStepToTell) {
  const Observers observers = Begin();
  RunSteps(observers, 25);
  const std::vector<std::string> lines = Lines(OutPath());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].substr(0, 10), "step  1/25");
  EXPECT_EQ(lines[1].substr(0, 10), "step 10/25");
  EXPECT_EQ(lines[2].substr(0, 10), "step 20/25");
  EXPECT_EQ(lines[3].substr(0, 10), "step 25/25");
}

TEST_F(ObserversTest, ALineHasTheMeanLossTheRateAndTheTimeLeft) {
  const Observers observers = Begin();
  RunSteps(observers, 10);
  EXPECT_NE(Lines(OutPath()).at(1).find("loss  6.0000"), std::string::npos) << Contents(OutPath());
  EXPECT_NE(Lines(OutPath()).at(1).find("100 tokens/s"), std::string::npos);
  EXPECT_NE(Lines(OutPath()).at(1).find("left 0:15"), std::string::npos);
}

TEST_F(ObserversTest, TheMetricsFileHasHeaderStepsEvaluationAndEnd) {
  const Observers observers = Begin();
  RunSteps(observers, 25);
  observers.Notify(&Observer::OnEval, EvalReport{.step = 25, .loss = 3});
  observers.Notify(&Observer::OnEnd, RunEnd{.reason = "finished", .step = 25});
  const std::vector<std::string> lines = Lines(metrics_path_);
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_NE(lines[0].find(R"("event":"start")"), std::string::npos);
  EXPECT_NE(lines[2].find(R"("step":10,)"), std::string::npos);
  EXPECT_NE(lines[5].find(R"("split":"validation")"), std::string::npos);
  EXPECT_NE(lines[6].find(R"("reason":"finished")"), std::string::npos);
}

TEST_F(ObserversTest, AProgressBarIsBelowTheLinesUntilItIsFull) {
  options_.bar_fd = out_.get();
  const Observers observers = Begin();
  RunSteps(observers, 11);
  // The bar is removed for each line.
  EXPECT_NE(Contents(OutPath()).find("\r\x1b[Kstep 10/25"), std::string::npos);
  observers.Note("hello");
  EXPECT_TRUE(Contents(OutPath()).ends_with("\r\x1b[Khello\n")) << Contents(OutPath());
  RunSteps(observers, 25);
  observers.Note("run folder: x");
  observers.Notify(&Observer::OnEnd, RunEnd{.reason = "finished", .step = 25});
  const std::vector<std::string> lines = Lines(OutPath());
  ASSERT_GE(lines.size(), 3U);
  EXPECT_EQ(lines.back(), "run folder: x");
  // A line of its own, and above what followed.
  EXPECT_NE(lines[lines.size() - 3].find("100%"), std::string::npos) << Contents(OutPath());
}

TEST_F(ObserversTest, LostOutputIsSaidOnceAndTrainingGoesOn) {
  options_.line_fd = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  const UniqueFd full(options_.line_fd);
  const Observers observers = Begin();
  testing::internal::CaptureStderr();
  RunSteps(observers, 25);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: standard output is lost (No space left on device); the training goes on, its "
            "numbers are in " +
                metrics_path_ + "\n");
  EXPECT_EQ(Lines(metrics_path_).size(), 5U);
}

TEST_F(ObserversTest, LostMetricsAreSaidOnceAndTrainingGoesOn) {
  // A FIFO whose reader goes away stands for a disk that fails during the run.
  ASSERT_EQ(::mkfifo(metrics_path_.c_str(), 0600), 0);
  UniqueFd reader(::open(metrics_path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const Observers observers = Begin();
  const auto old_handler = std::signal(SIGPIPE, SIG_IGN);
  reader.reset();
  RunSteps(observers, 25);
  std::signal(SIGPIPE, old_handler);
  const std::vector<std::string> lines = Lines(OutPath());
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[1], "warning: metrics are being lost from step 1 on: \"" + metrics_path_ +
                          "\" cannot be written: Broken pipe.");
  EXPECT_EQ(lines[4].substr(0, 10), "step 25/25");
}

TEST_F(ObserversTest, AFullDiskAtTheStartIsAnError) {
  metrics_path_ = "/dev/full";
  try {
    (void)Begin();
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().what, "\"/dev/full\" cannot be written: No space left on device.");
  }
}

TEST(ProgressBarFd, IsNoneWhenOff) {
  EXPECT_EQ(ProgressBarFd(ProgressBarMode::kOff, Environment()), -1);
}

// As a shell within Emacs, which would show the escape sequences as text.
TEST(ProgressBarFd, IsNoTerminalWithoutEscapeSequences) {
  const UniqueFd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal.valid());
  const UniqueFd out(::dup(STDOUT_FILENO));
  const UniqueFd err(::dup(STDERR_FILENO));
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(terminal.get(), fd);
  using Variables = Environment::Variables;
  const int bar = ProgressBarFd(ProgressBarMode::kAuto, Environment(Variables{{"TERM", "xterm"}}));
  const int dumb = ProgressBarFd(ProgressBarMode::kAuto, Environment(Variables{{"TERM", "dumb"}}));
  ::dup2(out.get(), STDOUT_FILENO);
  ::dup2(err.get(), STDERR_FILENO);
  EXPECT_EQ(bar, STDOUT_FILENO);
  EXPECT_EQ(dumb, -1);
}

}  // namespace
}  // namespace ddprun::trainer
