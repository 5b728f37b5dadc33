#include "trainer/report/time_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/trainer/report/noted_lines.h"
#include "tests/trainer/report/scratch_folder.h"
#include "trainer/report/metrics_file.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

class TimeLedgerTest : public ScratchFolder {
 protected:
  // A start at second `begin` that goes on after `resumed_step`.
  Observers Start(double begin, int64_t resumed_step, double idle = 0) {
    Observers observers;
    observers.Add(std::make_unique<TimeLedger>(Path(), heard_, /*continues_file=*/false, idle));
    observers.Add(std::make_unique<MetricsFile>(Path(), heard_));
    RunHeader header;
    header.resumed_step = resumed_step;
    observers.Notify(&Observer::OnBegin, header, At(begin));
    return observers;
  }
  // Steps of two seconds: 0.5 waiting for data, 0.25 for ranks.
  static void Steps(const Observers& observers, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      observers.Notify(
          &Observer::OnStep,
          StepReport{
              .step = step, .step_seconds = 2, .data_seconds = 0.5, .exposed_comm_seconds = 0.25});
    }
  }
  static CheckpointReport Saved(int64_t step, double stall_seconds) {
    CheckpointReport report;
    report.step = step;
    report.stall_seconds = stall_seconds;
    return report;
  }
  static ReportTime At(double seconds) { return {1000 + seconds, seconds}; }
  std::string Path() const { return folder_ + "/metrics.jsonl"; }
  std::vector<nlohmann::json> Ledger() const {
    std::vector<nlohmann::json> lines;
    for (const std::string& text : Lines(Path())) {
      const auto line = nlohmann::json::parse(text);
      if (line.value("event", "") == "ledger") lines.push_back(line);
    }
    return lines;
  }

  NotedLines heard_;
};

TEST_F(TimeLedgerTest, TellsApartWhatWasLost) {
  const Observers observers = Start(0, 0);
  Steps(observers, 1, 20);
  observers.Notify(&Observer::OnSave, int64_t{20});
  Steps(observers, 21, 40);
  observers.Notify(&Observer::OnEval, EvalReport{.step = 40, .seconds = 5});
  observers.Notify(&Observer::OnCheckpoint, Saved(20, 1), At(90));
  observers.Notify(&Observer::OnEnd, RunEnd{.reason = "finished", .step = 40}, At(100));
  const auto lines = Ledger();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["step"], 20);
  EXPECT_EQ(lines[0]["useful_seconds"], 25);
  EXPECT_EQ(lines[1]["useful_seconds"], 49);
  EXPECT_EQ(lines[1]["data_seconds"], 20);
  EXPECT_EQ(lines[1]["ranks_seconds"], 10);
  EXPECT_EQ(lines[1]["saving_seconds"], 1);
  EXPECT_EQ(lines[1]["evaluation_seconds"], 5);
  EXPECT_EQ(lines[1]["lost_seconds"], 15);
  EXPECT_EQ(lines[1]["goodput"], 0.49);
  EXPECT_THAT(heard_.lines, ElementsAre(StartsWith("time: training 49.0 % of 1:40; waiting for "
                                                   "data 0:20, for ranks 0:10, saving 0:01, "
                                                   "validation 0:05, starts, redone steps and "
                                                   "the rest 0:15")));
  EXPECT_EQ(nlohmann::json::parse(Lines(Path()).back())["event"], "end");
  EXPECT_EQ(nlohmann::json::parse(Lines(Path()).front())["event"], "start");
}

TEST_F(TimeLedgerTest, CountsStepsDoneAgainAndTheTimeBetweenStartsAsLost) {
  {
    const Observers killed = Start(0, 0);
    Steps(killed, 1, 2);
    killed.Notify(&Observer::OnSave, int64_t{2});  // nothing comes of it
    Steps(killed, 3, 4);
    killed.Notify(&Observer::OnSave, int64_t{4});
    Steps(killed, 5, 10);
    killed.Notify(&Observer::OnCheckpoint, Saved(4, 0), At(12));
  }
  ASSERT_TRUE(CutMetrics(Path(), 4).ok());
  const Observers again = Start(50, 4);
  Steps(again, 5, 10);
  again.Notify(&Observer::OnEnd, RunEnd{.reason = "finished", .step = 10}, At(70));
  const auto last = Ledger().back();
  EXPECT_EQ(last["starts"], 2);
  EXPECT_EQ(last["wall_seconds"], 70);
  EXPECT_EQ(last["useful_seconds"], 12.5);
  EXPECT_EQ(last["lost_seconds"], 50);
}

TEST_F(TimeLedgerTest, CountsNothingOfTheTimeInWhichNobodyWantedIt) {
  {
    const Observers stopped = Start(0, 0);
    Steps(stopped, 1, 4);
    stopped.Notify(&Observer::OnCheckpoint, Saved(4, 0), At(12));
    stopped.Notify(&Observer::OnEnd, RunEnd{.reason = "stopped", .step = 4}, At(12));
  }
  EXPECT_EQ(LastWriteTime(Path()), 1012);
  for (const double begin : {5000, 9000}) {  // the first of these is killed
    ASSERT_TRUE(CutMetrics(Path(), 4).ok());
    const double idle = begin - (begin == 5000 ? 12 : 5003);
    const Observers again = Start(begin, 4, idle);
    if (begin == 5000) continue;
    Steps(again, 5, 10);
    again.Notify(&Observer::OnEnd, RunEnd{.reason = "finished", .step = 10}, At(begin + 20));
  }
  const auto last = Ledger().back();
  EXPECT_EQ(last["idle_seconds"], 4988 + 3997);
  EXPECT_EQ(last["wall_seconds"], 12 + 3 + 20);
  EXPECT_EQ(last["useful_seconds"], 12.5);
  EXPECT_EQ(last["lost_seconds"], 15);
  EXPECT_EQ(LastWriteTime(folder_ + "/none"), 0);
}

TEST_F(TimeLedgerTest, SaysNothingOfShortRuns) {
  const Observers observers = Start(0, 0);
  Steps(observers, 1, 2);
  observers.Notify(&Observer::OnEnd, RunEnd{.reason = "finished", .step = 2}, At(5));
  EXPECT_TRUE(heard_.lines.empty());
  EXPECT_EQ(Ledger().size(), 1U);
}

}  // namespace
}  // namespace ddprun::trainer
