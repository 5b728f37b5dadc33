// loop.report reads the pages of whole runs.
#include "trainer/report/run_history.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>

#include "tests/trainer/report/scratch_folder.h"
#include "trainer/report/html_report.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunHistoryTest : public ScratchFolder {
 protected:
  RunHistory Read(const std::string& metrics, const std::string& config = "{}") const {
    std::ofstream(folder_ + "/metrics.jsonl") << metrics;
    std::ofstream(folder_ + "/config.resolved.json") << config;
    return *ReadRunHistory(folder_);
  }
};

constexpr const char* kStartLine =
    R"({"ts":1,"event":"start","run":"r","world":{"size":2,"nodes":1}})"
    "\n";
constexpr const char* kEndLine = R"({"ts":9,"event":"end","step":2,"reason":"finished"})"
                                 "\n";

TEST_F(RunHistoryTest, HasTheBestOfEachMetric) {
  const RunHistory run =
      Read(std::string(kStartLine) +
           R"({"ts":2,"step":0,"split":"validation","loss":0.1,"accuracy":0.9,"samples":9})"
           "\n"
           R"({"ts":2,"step":1,"split":"validation","loss":0.5,"accuracy":0.5,"samples":9})"
           "\n"
           R"({"ts":3,"step":2,"split":"validation","loss":0.7,"accuracy":0.8,"samples":9})"
           "\n"
           R"({"ts":4,"step":3,"split":"validation","loss":"nan","accuracy":0.8,"samples":9})"
           "\n" +
           kEndLine);
  ASSERT_EQ(run.best.size(), 2U);
  for (const RunHistory::Best& best : run.best) {
    EXPECT_EQ(best.step, best.metric == "loss" ? 1 : 2) << best.metric;
  }
  EXPECT_THAT(run.notes, IsEmpty());
}

TEST_F(RunHistoryTest, HasTheMeanTimesOfTheRanksSinceTheLastStart) {
  const auto line = [](int steps, double most, int slowest) {
    return R"({"step":1,"split":"train","own_seconds":{"steps":)" + std::to_string(steps) +
           R"(,"all":{"min":1,"median":2,"max":)" + std::to_string(most) + R"(,"slowest":)" +
           std::to_string(slowest) + R"(},"forward":{"min":1,"median":1,"max":1,"slowest":0}}})" +
           "\n";
  };
  const RunHistory run = Read(kStartLine + line(1000, 9, 1) + kStartLine + line(10, 3, 1) +
                              line(20, 6, 0) + R"({"split":"train","own_seconds":{"all":3}})");
  ASSERT_EQ(run.own_times.size(), 2U);
  EXPECT_EQ(run.own_times[0].phase, "forward");
  EXPECT_EQ(run.own_times[1].phase, "all");
  EXPECT_EQ(run.own_times[1].least, 1);
  EXPECT_EQ(run.own_times[1].most, 5);
  EXPECT_EQ(run.own_times[1].slowest, 0);
  const std::string page = HtmlReport({run});
  EXPECT_THAT(page, HasSubstr("<td>together</td><td>1000 ms</td><td>2000 ms</td><td>5000 ms</td>"));
}

TEST_F(RunHistoryTest, ABranchNamesItsParentAndWhatHasChanged) {
  const RunHistory run =
      Read(std::string(kStartLine) + R"({"event":"start","world":{"size":1},"resumed_step":5,)"
                                     R"("parent":"/runs/a/checkpoints/step-5",)"
                                     R"("changes":["seed was 1", "rate was 2", 3]})");
  EXPECT_THAT(run.facts, ElementsAre(testing::Pair("parent", "/runs/a/checkpoints/step-5"),
                                     testing::Pair("ranks", "1"), testing::Pair("nodes", "")));
  EXPECT_EQ(run.events[1].text, "start on 1 rank, from step 5; seed was 1; rate was 2");
}

TEST_F(RunHistoryTest, TheConfusionMatrixIsThatOfTheTestAndWhole) {
  const auto line = [](const std::string& split, const std::string& matrix) {
    return R"({"ts":2,"step":7,"split":")" + split + R"(","loss":1,"confusion_matrix":)" + matrix +
           "}\n";
  };
  const std::string validation =
      line("validation", R"({"labels":["<a>","b"],"counts":[[1,2],[0,4]]})");
  const RunHistory run = Read(validation);
  EXPECT_EQ(run.confusion_of, "validation, step 7");
  const std::string page = HtmlReport({run});
  EXPECT_THAT(page, HasSubstr("Confusion matrix"));
  EXPECT_THAT(page, HasSubstr("&lt;a>"));
  EXPECT_THAT(page, HasSubstr("<td>0.66667</td>"));  // precision of b
  EXPECT_EQ(Read(validation + line("test", R"({"labels":["c"],"counts":[[3]]})")).confusion_of,
            "test, step 7");
  for (const char* broken :
       {"7", R"({"labels":["a"]})", R"({"labels":["a","b"],"counts":[[1,2],[3]]})",
        R"({"labels":["a","b"],"counts":[[1,2]]})", R"({"labels":["a"],"counts":[["x"]]})",
        R"({"labels":[1],"counts":[[1]]})"}) {
    EXPECT_EQ(Read(line("test", broken)).confusion.size(), 0U) << broken;
  }
}

TEST_F(RunHistoryTest, SaysWhatIsMissing) {
  EXPECT_THAT(Read("").notes, ElementsAre(HasSubstr("no line of a start or a step yet")));
  EXPECT_THAT(Read(kStartLine).notes, ElementsAre(HasSubstr("has not ended")));
  EXPECT_THAT(Read(std::string(kStartLine) + "{\"ts\":2,\"st\n[1]\n" + kEndLine).notes,
              ElementsAre(HasSubstr("2 lines of metrics.jsonl could not be read, the first is "
                                    "line 2")));
  EXPECT_THAT(Read(std::string(kStartLine) + kEndLine, "{").notes,
              ElementsAre("config.resolved.json could not be read."));
  const auto none = ReadRunHistory(folder_ + "/none");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().page, "no-run-folder");
}

// Values of other types than ddprun's, at every place.
TEST_F(RunHistoryTest, TakesAnyJson) {
  const RunHistory run =
      Read(R"({"event":"start","world":7,"resumed_step":1e300,"run":[1]})"
           "\n"
           R"({"split":"train","step":"x","mean_loss":{},"samples":"many","step_seconds":0})"
           "\n"
           R"({"split":"train","step":-1e300,"mean_loss":"inf","samples":2,"step_seconds":0.5})"
           "\n"
           R"({"event":"ledger","useful_seconds":"inf"})"
           "\n"
           R"({"event":"device_memory","devices":[1,{"bytes":"x"}]})"
           "\n"
           R"({"event":"checkpoint","path":3,"bytes":"nan"})"
           "\n",
           R"({"run": 3, "model": {"type": ["<i>"]}})");
  const std::string page = HtmlReport({run, run});
  EXPECT_THAT(page, HasSubstr("model.type: [&quot;&lt;i>&quot;]"));
}

TEST_F(RunHistoryTest, ReplacesOnlyItsOwnPages) {
  const std::string path = folder_ + "/report.html";
  const std::string page = HtmlReport({Read(kStartLine)});
  EXPECT_TRUE(WriteReport(path, page).ok());
  EXPECT_TRUE(WriteReport(path, page + " ").ok());
  EXPECT_EQ(Contents(path), page + " ");
  std::ofstream(folder_ + "/notes.txt") << "mine";
  EXPECT_FALSE(WriteReport(folder_ + "/notes.txt", page).ok());
  EXPECT_EQ(Contents(folder_ + "/notes.txt"), "mine");
  // Reading a pipe without a writer would wait for ever.
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(WriteReport(pipe, page).ok());
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

}  // namespace
}  // namespace ddprun::trainer
