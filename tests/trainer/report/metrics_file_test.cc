#include "trainer/report/metrics_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/trainer/report/scratch_folder.h"

namespace ddprun::trainer {
namespace {

TEST(MetricsLine, TheHeaderTellsTheWorld) {
  EXPECT_EQ(HeaderJson({.run_name = "r",
                        .config_hash = "0123",
                        .world_size = 4,
                        .nodes = 2,
                        .local_world_size = 2,
                        .strategy = "ddp",
                        .parameters = 165,
                        .facts = {{"device", "cpu"}}},
                       1.5),
            R"({"ts":1.5,"event":"start","run":"r","config_hash":"0123",)"
            R"("world":{"size":4,"nodes":2,"local_size":2},"strategy":"ddp","parameters":165,)"
            R"("device":"cpu"})");
}

TEST(MetricsLine, AStepHasAllItsNumbers) {
  EXPECT_EQ(StepJson({.step = 10,
                      .max_steps = 20,
                      .epoch = 0.25,
                      .loss = 2.5,
                      .learning_rate = 0.001,
                      .grad_norm = 0.75,
                      .samples = 16,
                      .tokens = 2048,
                      .step_seconds = 0.125,
                      .exposed_comm_seconds = 0.25},
                     2.75, 1.5),
            R"({"ts":1.5,"step":10,"epoch":0.25,"split":"train","loss":2.5,"mean_loss":2.75,)"
            R"("learning_rate":0.001,"grad_norm":0.75,"samples":16,"tokens":2048,)"
            R"("step_seconds":0.125,"exposed_comm_seconds":0.25})");
}

TEST(MetricsLine, NonFiniteNumbersAreStrings) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string line = StepJson({.loss = std::nan(""), .grad_norm = kInfinity}, -kInfinity, 0);
  EXPECT_NE(line.find(R"("loss":"nan")"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("mean_loss":"-inf")"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("grad_norm":"inf")"), std::string::npos) << line;
}

TEST(MetricsLine, AnEvaluationIsOfTheValidationSplit) {
  EXPECT_EQ(EvalJson({.step = 10, .epoch = 0.5, .loss = 2.5, .samples = 64, .seconds = 0.5}, 1),
            R"({"ts":1.0,"step":10,"epoch":0.5,"split":"validation","loss":2.5,"samples":64,)"
            R"("seconds":0.5})");
}

TEST(MetricsLine, TheEndSaysWhy) {
  EXPECT_EQ(EndJson({.reason = "finished", .step = 20}, 1),
            R"({"ts":1.0,"event":"end","step":20,"reason":"finished"})");
  EXPECT_EQ(EndJson({.reason = "failed", .step = 2, .message = "a\n\xFF"}, 1),
            "{\"ts\":1.0,\"event\":\"end\",\"step\":2,\"reason\":\"failed\","
            "\"message\":\"a\\n\xEF\xBF\xBD\"}");
}

using MetricsFileTest = ScratchFolder;

TEST_F(MetricsFileTest, EveryLineIsInTheFileAtOnce) {
  const std::string path = folder_ + "/metrics.jsonl";
  Result<MetricsFile> file = MetricsFile::Open(path);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Append("{}").ok());
  EXPECT_EQ(Contents(path), "{}\n");
  ASSERT_TRUE(file->Append("[]").ok());
  EXPECT_EQ(Contents(path), "{}\n[]\n");
}

TEST_F(MetricsFileTest, AFullDiskIsAnError) {
  Result<MetricsFile> file = MetricsFile::Open("/dev/full");
  ASSERT_TRUE(file.has_value());
  const Status status = file->Append("{}");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().what, "\"/dev/full\" cannot be written: No space left on device.");
}

}  // namespace
}  // namespace ddprun::trainer
