#include "launcher/agent/output_plan.h"

#include <gmock/gmock.h>

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;

class OutputPlanTest : public testing::Test {
 protected:
  OutputPlanTest() { membership_.world_size = 2; }

  WorkerOutputPlan Of(int local_rank) const {
    return PlanOutput(options_, here_).workers[static_cast<size_t>(local_rank)];
  }

  Options options_;
  rendezvous::Membership membership_;
  OutputSurroundings here_{.membership = membership_,
                           .local_world_size = 2,
                           .host = "node1",
                           .attempt_folder = "/logs/attempt_0",
                           .prefix_template = ""};
};

TEST_F(OutputPlanTest, ASingleWorkersOutputIsInherited) {
  here_.local_world_size = 1;
  membership_.world_size = 1;
  here_.out_is_terminal = true;
  EXPECT_EQ(Of(0).out.route, Route::kInherit);
  EXPECT_EQ(Of(0).err.route, Route::kPipe);
}

TEST_F(OutputPlanTest, SeveralWorkersWriteToPipesAsTheyAre) {
  EXPECT_EQ(Of(1).out.route, Route::kPipe);
  EXPECT_TRUE(Of(1).out.shown);
  EXPECT_EQ(Of(1).out.label, "");
  EXPECT_EQ(Of(1).out.file, "");
}

TEST_F(OutputPlanTest, SeveralWorkersHaveATerminalAndALabelWhenWeHaveATerminal) {
  here_.out_is_terminal = true;
  EXPECT_EQ(Of(1).out.route, Route::kTerminal);
  EXPECT_EQ(Of(1).out.label, "[1] ");
  EXPECT_EQ(Of(1).err.route, Route::kPipe);
  EXPECT_EQ(Of(1).err.label, "");
}

TEST_F(OutputPlanTest, ATrainersProgressBarGetsNoLabel) {
  here_.out_is_terminal = here_.err_is_terminal = true;
  here_.is_trainer_config = true;
  EXPECT_EQ(Of(0).out.route, Route::kTerminal);
  EXPECT_EQ(Of(0).out.label, "");
  EXPECT_EQ(Of(0).err.route, Route::kPipe);
}

TEST_F(OutputPlanTest, LabelsNameTheRankInTheJobAndTheHostOfSeveral) {
  options_.label = Label::kAlways;
  membership_.base_rank = 6;
  membership_.nnodes = 4;
  EXPECT_EQ(Of(1).out.label, "[node1:7] ");
}

TEST_F(OutputPlanTest, LabelsHaveColorsOnTerminalsOnly) {
  options_.label = Label::kAlways;
  here_.color = true;
  here_.err_is_terminal = true;
  EXPECT_EQ(Of(0).out.label, "[0] ");
  EXPECT_THAT(Of(0).err.label, HasSubstr("\x1b["));
  EXPECT_NE(Of(0).err.label.substr(0, 5), Of(1).err.label.substr(0, 5));
}

TEST_F(OutputPlanTest, NoLabelsWhenNoneAreWanted) {
  options_.label = Label::kNever;
  here_.out_is_terminal = here_.err_is_terminal = true;
  EXPECT_EQ(Of(0).out.label, "");
  EXPECT_EQ(Of(0).out.route, Route::kTerminal);
}

TEST_F(OutputPlanTest, ARedirectedStreamGoesToItsFileOnly) {
  options_.redirects.of_rank[1] = {.out = false, .err = true};
  EXPECT_EQ(Of(1).err.route, Route::kFile);
  EXPECT_EQ(Of(1).err.file, "/logs/attempt_0/1/stderr.log");
  EXPECT_FALSE(Of(1).err.shown);
  EXPECT_EQ(Of(1).out.route, Route::kPipe);
  EXPECT_EQ(Of(0).err.route, Route::kPipe);
}

TEST_F(OutputPlanTest, ATeedStreamGoesToBothWithTorchrunsPrefix) {
  options_.tee.all = options_.redirects.all = {.out = true, .err = true};
  options_.rdzv.role = "trainer";
  here_.out_is_terminal = true;
  EXPECT_EQ(Of(1).out.route, Route::kPipe);
  EXPECT_EQ(Of(1).out.file, "/logs/attempt_0/1/stdout.log");
  EXPECT_TRUE(Of(1).out.shown);
  EXPECT_EQ(Of(1).out.label, "[trainer1]:");
  here_.prefix_template = "<${rank}/$local_rank> ";
  membership_.base_rank = 4;
  EXPECT_EQ(Of(1).out.label, "<5/1> ");
}

TEST_F(OutputPlanTest, TheFilterConcernsTheConsoleOnly) {
  options_.local_ranks_filter = {1};
  EXPECT_FALSE(Of(0).out.shown);
  EXPECT_EQ(Of(0).out.route, Route::kPipe);
  EXPECT_TRUE(Of(1).out.shown);
  options_.tee.all.out = true;
  EXPECT_EQ(Of(0).out.file, "/logs/attempt_0/0/stdout.log");
  EXPECT_FALSE(Of(0).out.shown);
  EXPECT_FALSE(Of(0).out.filtered);
  EXPECT_TRUE(Of(1).out.filtered);
}

TEST_F(OutputPlanTest, WithoutAFolderNothingGoesToFiles) {
  here_.attempt_folder = "";
  options_.tee.all = {.out = true, .err = false};
  options_.redirects.all = {.out = false, .err = true};
  options_.duplicate_stdout_filters = {"loss"};
  EXPECT_EQ(Of(0).out.file + Of(0).err.file, "");
  EXPECT_TRUE(Of(0).out.shown);
  EXPECT_TRUE(Of(0).err.shown);
  EXPECT_EQ(PlanOutput(options_, here_).filtered_out.file, "");
}

TEST_F(OutputPlanTest, FilteredLogsStandInTheAttemptsFolder) {
  options_.duplicate_stderr_filters = {"loss"};
  const GroupOutputPlan plan = PlanOutput(options_, here_);
  EXPECT_EQ(plan.filtered_out.file, "");
  EXPECT_EQ(plan.filtered_err.file, "/logs/attempt_0/filtered_stderr.log");
  EXPECT_EQ(plan.filtered_err.needles, options_.duplicate_stderr_filters);
}

TEST(FillPrefix, ReplacesNamesAsPythonsTemplateDoes) {
  EXPECT_EQ(FillPrefix("${role_name}-$rank:$local_rank", "r", 9, 1), "r-9:1");
  EXPECT_EQ(FillPrefix("$$rank $ranks ${rank $ ${other} $", "r", 9, 1),
            "$rank $ranks ${rank $ ${other} $");
}

}  // namespace
}  // namespace ddprun::launcher
