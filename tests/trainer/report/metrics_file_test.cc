#include "trainer/report/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "tests/trainer/report/noted_lines.h"
#include "tests/trainer/report/scratch_folder.h"

namespace ddprun::trainer {
namespace {

constexpr ReportTime kNow{.unix_seconds = 1.5};

class MetricsFileTest : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    path_ = folder_ + "/metrics.jsonl";
    file_ = std::make_unique<MetricsFile>(path_, nobody_);
    file_->OnBegin({}, kNow);
  }
  // Every line is there at once.
  std::string LastLine() const { return Lines(path_).back(); }

  std::string path_;
  Observer nobody_;
  std::unique_ptr<MetricsFile> file_;
};

TEST_F(MetricsFileTest, TheHeaderTellsTheWorld) {
  file_->OnBegin({.run_name = "r",
                  .config_hash = "0123",
                  .world_size = 4,
                  .nodes = 2,
                  .local_world_size = 2,
                  .strategy = "ddp",
                  .parameters = 165,
                  .facts = {{"device", "cpu"}}},
                 kNow);
  EXPECT_EQ(LastLine(),
            R"({"ts":1.5,"event":"start","run":"r","config_hash":"0123",)"
            R"("world":{"size":4,"nodes":2,"local_size":2},"strategy":"ddp","parameters":165,)"
            R"("device":"cpu"})");
  EXPECT_EQ(Lines(path_).size(), 2U);  // what was there stays
}

TEST_F(MetricsFileTest, AStepToTellHasAllItsNumbers) {
  StepReport step = {.step = 10,
                     .max_steps = 20,
                     .epoch = 0.25,
                     .reported = true,
                     .loss = 2.5,
                     .mean_loss = 2.75,
                     .learning_rate = 0.001,
                     .grad_norm = 0.75,
                     .samples = 16,
                     .tokens = 2048,
                     .run_seconds = 3.5,
                     .step_seconds = 0.125,
                     .exposed_comm_seconds = 0.25};
  file_->OnStep(step, kNow);
  const std::string line =
      R"({"ts":1.5,"step":10,"epoch":0.25,"split":"train","loss":2.5,"mean_loss":2.75,)"
      R"("learning_rate":0.001,"grad_norm":0.75,"samples":16,"tokens":2048,)"
      R"("run_seconds":3.5,"step_seconds":0.125,"exposed_comm_seconds":0.25})";
  EXPECT_EQ(LastLine(), line);
  step.reported = false;
  step.step = 11;
  file_->OnStep(step, kNow);
  EXPECT_EQ(LastLine(), line);
  step.reported = true;
  step.max_memory_allocated = 3 << 20;
  step.max_memory_reserved = 4 << 20;
  file_->OnStep(step, kNow);
  EXPECT_TRUE(
      LastLine().ends_with(R"("max_memory_allocated":3145728,"max_memory_reserved":4194304})"))
      << LastLine();
}

TEST_F(MetricsFileTest, TheNextStepHasTheTimesOfTheRanks) {
  file_->OnRankTimes(
      {.steps = 10,
       .phases = {{.name = "data", .least = 1, .median = 1.5, .most = 2},
                  {.name = "all", .least = 3, .median = 4, .most = 5, .slowest = 1}}},
      kNow);
  file_->OnStep({.step = 19}, kNow);  // no line
  file_->OnStep({.step = 20, .reported = true}, kNow);
  EXPECT_TRUE(LastLine().ends_with(
      R"("own_seconds":{"steps":10,"data":{"min":1.0,"median":1.5,"max":2.0,"slowest":0},)"
      R"("all":{"min":3.0,"median":4.0,"max":5.0,"slowest":1}}})"))
      << LastLine();
  file_->OnStep({.step = 21, .reported = true}, kNow);
  EXPECT_EQ(LastLine().find("own_seconds"), std::string::npos);
}

TEST_F(MetricsFileTest, ABranchNamesItsParent) {
  const std::string path = path_ + ".branch";
  MetricsFile file(path, nobody_);
  RunHeader header;
  header.resumed_step = 5;
  header.parent = "/runs/a/checkpoints/step-5";
  header.changes = {"x was 1"};
  file.OnBegin(header, kNow);
  EXPECT_TRUE(Lines(path).back().ends_with(
      R"("resumed_step":5,"parent":"/runs/a/checkpoints/step-5","changes":["x was 1"]})"))
      << Lines(path).back();
}

// A line without room on the disk leaves no part, to which the next line would be glued.
TEST_F(MetricsFileTest, AFullDiskLosesWholeLinesOnly) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = std::filesystem::file_size(path_) + 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  file_->OnEval({.step = 1}, kNow);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  file_->OnEval({.step = 2}, kNow);
  const std::vector<std::string> lines = Lines(path_);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[1].starts_with(R"({"ts":1.5,"step":2,)")) << lines[1];
}

TEST_F(MetricsFileTest, ARemovedFileIsMadeAgain) {
  NotedLines notes;
  MetricsFile file(path_, notes, /*continues_file=*/true);
  file.OnBegin({}, kNow);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  file.OnEval({.step = 1}, kNow);
  file.OnEval({.step = 2}, kNow);
  EXPECT_EQ(Lines(path_).size(), 2U);
  ASSERT_EQ(notes.lines.size(), 1U);
  EXPECT_NE(notes.lines[0].find("was removed"), std::string::npos);
}

TEST_F(MetricsFileTest, NonFiniteNumbersAreStrings) {
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  file_->OnStep(
      {.reported = true, .loss = std::nan(""), .mean_loss = -kEndless, .grad_norm = kEndless},
      kNow);
  const std::string line = LastLine();
  EXPECT_NE(line.find(R"("loss":"nan")"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("mean_loss":"-inf")"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("grad_norm":"inf")"), std::string::npos) << line;
}

TEST_F(MetricsFileTest, AnEvaluationIsOfTheValidationSplit) {
  file_->OnEval({.step = 10, .epoch = 0.5, .loss = 2.5, .samples = 64, .seconds = 0.5}, kNow);
  EXPECT_EQ(LastLine(),
            R"({"ts":1.5,"step":10,"epoch":0.5,"split":"validation","loss":2.5,"samples":64,)"
            R"("seconds":0.5})");
}

TEST_F(MetricsFileTest, ATestIsOfTheStepsBeforeIt) {
  file_->OnStep({.step = 10, .reported = true}, kNow);
  EXPECT_EQ(CutLastLine(path_)->test, 0);
  file_->OnTest({.step = 8, .epoch = 0.5, .loss = 2.5, .samples = 64, .seconds = 0.5}, kNow);
  EXPECT_EQ(LastLine(), R"({"ts":1.5,"step":8,"epoch":0.5,"split":"test","loss":2.5,"samples":64,)"
                        R"("seconds":0.5})");
  EXPECT_EQ(CutLastLine(path_)->test, 8);
  file_->OnStep({.step = 11, .reported = true}, kNow);
  EXPECT_EQ(CutLastLine(path_)->test, 0);
}

TEST_F(MetricsFileTest, TheEndSaysWhy) {
  file_->OnEnd({.reason = "finished", .step = 20}, kNow);
  EXPECT_EQ(LastLine(), R"({"ts":1.5,"event":"end","step":20,"reason":"finished"})");
  file_->OnEnd({.reason = "failed", .step = 2, .message = "a\n\xFF"}, kNow);
  EXPECT_EQ(LastLine(),
            "{\"ts\":1.5,\"event\":\"end\",\"step\":2,\"reason\":\"failed\","
            "\"message\":\"a\\n\xEF\xBF\xBD\"}");
}

TEST_F(MetricsFileTest, AreCutWhereARunGoesOn) {
  for (const int64_t step : {1, 2, 3}) {
    file_->OnStep({.step = step, .reported = true}, kNow);
    file_->OnEval({.step = step}, kNow);
    file_->OnCheckpoint({.step = step, .path = "a"}, kNow);
  }
  file_->OnEnd({.reason = "failed", .step = 2}, kNow);
  const std::vector<std::string> before = Lines(path_);
  std::ofstream(path_, std::ios::app) << R"({"ts":1.5,"step":1,"epo)";  // cut off by a crash
  ASSERT_TRUE(CutMetrics(path_, 2).ok());
  EXPECT_EQ(Lines(path_), std::vector<std::string>(before.begin(), before.begin() + 7));
  ASSERT_TRUE(CutMetrics(path_, 2).ok());
  EXPECT_EQ(Lines(path_).size(), 7U);
  ASSERT_TRUE(CutMetrics(path_, 2, /*evaluation_due=*/true).ok());
  EXPECT_EQ(Lines(path_).size(), 6U);
  EXPECT_THAT(Lines(path_), testing::Not(testing::Contains(before[5])));
  ASSERT_TRUE(CutMetrics(path_, 0).ok());
  EXPECT_EQ(Lines(path_), std::vector<std::string>(before.begin(), before.begin() + 1));
  EXPECT_TRUE(CutMetrics(folder_ + "/none", 0).ok());
  EXPECT_FALSE(CutMetrics(folder_, 0).ok());  // cannot be read
}

}  // namespace
}  // namespace ddprun::trainer
