#include "launcher/sweep/sweep_table.h"

#include <gmock/gmock.h>

#include <cmath>

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;
using testing::Not;

SweepRow Row(const std::string& value, double loss) {
  SweepRow row{.values = {{"a.b", value}},
               .status = "finished",
               .finished = true,
               .summary = {},
               .folder = "f/" + value};
  row.summary.steps = 20;
  row.summary.loss = loss;
  row.summary.curve = {{1, loss + 1}, {20, loss}};
  return row;
}

SweepRow Failed(const std::string& value) {
  return {.values = {{"a.b", value}},
          .status = "exit code 3",
          .finished = false,
          .summary = {},
          .folder = ""};
}

TEST(SweepTable, AlignsColumnsAndMarksTheBestRun) {
  EXPECT_EQ(TerminalTable({Row("1", 0.5), Row("22", 0.25), Failed("3")}),
            "  a.b  steps  loss  status\n"
            "  1    20     0.5   finished\n"
            "* 22   20     0.25  finished\n"
            "  3                 exit code 3\n");
}

TEST(SweepTable, GoesByTheValidationLossWhereThereIsOne) {
  SweepRow first = Row("1", 0.1);
  SweepRow second = Row("2", 0.2);
  first.summary.validation_loss = 0.9;
  second.summary.validation_loss = 0.8;
  EXPECT_THAT(TerminalTable({first, second}), HasSubstr("\n* 2"));
}

TEST(SweepTable, GoesByTheMetricOfTheBestCheckpoint) {
  const auto row = [](const std::string& value, const std::string& metric, double best) {
    SweepRow made = Row(value, 0.1);
    made.summary.validation_loss = 0.5;
    made.summary.metric = metric;
    made.summary.best = best;
    return made;
  };
  const std::string highest = TerminalTable({row("1", "f1", 0.7), row("2", "f1", 0.9)});
  EXPECT_THAT(highest, HasSubstr("best f1"));
  EXPECT_THAT(highest, HasSubstr("\n* 2"));
  EXPECT_THAT(TerminalTable({row("1", "rmse", 0.7), row("2", "rmse", 0.9), Failed("3")}),
              HasSubstr("\n* 1"));
  EXPECT_THAT(CsvTable({row("1", "loss", 0.25)}),
              HasSubstr("a.b,steps,loss,validation,best loss,samples/s,seconds,status,folder\r\n"
                        "1,20,0.1,0.5,0.25,"));
  // Runs of different metrics, or one without any, are compared by their losses.
  SweepRow without = Row("2", 0.2);
  without.summary.validation_loss = 0.4;
  const std::string mixed = TerminalTable({row("1", "f1", 0.7), without});
  EXPECT_THAT(mixed, Not(HasSubstr("best")));
  EXPECT_THAT(mixed, HasSubstr("\n* 2"));
  EXPECT_THAT(TerminalTable({row("1", "f1", 0.7), row("2", "mcc", 0.9)}), Not(HasSubstr("best")));
}

TEST(SweepTable, NeverCallsADivergedOrFailedRunTheBest) {
  SweepRow failed = Failed("2");
  failed.summary.loss = 0.1;
  EXPECT_THAT(TerminalTable({Row("1", std::nan("")), failed}), Not(HasSubstr("*")));
}

TEST(SweepTable, CallsNoRunTheBestWhereAllAreAlikeAndSeveralWhereTheyTie) {
  EXPECT_THAT(TerminalTable({Row("1", 0.5), Row("2", 0.5), Failed("3")}), Not(HasSubstr("*")));
  const std::string tie = TerminalTable({Row("1", 0.5), Row("2", 0.4), Row("3", 0.4)});
  EXPECT_THAT(tie, HasSubstr("  1 "));
  EXPECT_THAT(tie, HasSubstr("* 2 "));
  EXPECT_THAT(tie, HasSubstr("* 3 "));
}

TEST(SweepTable, QuotesForCsvAndKeepsNumbersInFull) {
  EXPECT_EQ(CsvTable({Row("[1,\"x\"]", 1.0 / 3)}),
            "a.b,steps,loss,validation,samples/s,seconds,status,folder\r\n"
            "\"[1,\"\"x\"\"]\",20,0.3333333333333333,,,,finished,\"f/[1,\"\"x\"\"]\"\r\n");
}

TEST(SweepTable, IsAPageThatNeedsNothingFromElsewhere) {
  SweepRow validated = Row("<1>", 0.5);
  validated.summary.validation = {{10, 0.75}};
  const std::string page = HtmlTable("Sweep of a<b", {validated, Failed("2")});
  EXPECT_THAT(page, HasSubstr("<title>Sweep of a&lt;b</title>"));
  EXPECT_THAT(page, HasSubstr("&lt;1>"));
  EXPECT_THAT(page, HasSubstr("<path"));
  EXPECT_THAT(page, HasSubstr("stroke-dasharray"));
  EXPECT_THAT(page, HasSubstr(">optimizer steps<"));
  EXPECT_THAT(page, HasSubstr("class=\"failed\""));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
}

}  // namespace
}  // namespace ddprun::launcher
