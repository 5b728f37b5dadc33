#include "launcher/agent/nccl_report.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

TEST(NcclReport, FindsTheFolderOfAnAttempt) {
  WorkerRecord worker;
  EXPECT_EQ(NcclFolder(worker), "");
  worker.error_file = "/logs/attempt_0/3/error.json";
  EXPECT_EQ(NcclFolder(worker), "/logs/attempt_0");
}

TEST(NcclReport, NamesFilesThatAreNoDumps) {
  EXPECT_TRUE(ReadNcclFinding("").lines.empty());
  const TempFolder folder;
  EXPECT_TRUE(ReadNcclFinding(folder.path()).lines.empty());
  const std::string path = folder.path() + "/nccl_trace_rank_3";
  std::ofstream(path) << "x";
  EXPECT_EQ(ReadNcclFinding(folder.path()).lines[0],
            path + " is no whole dump: it has the instruction 120, which is not needed here");
}

TEST(NcclReport, NamesTheCulpritUnlessMoreIsKnown) {
  HangReport report;
  report.culprit = {{0}, "is in another system call than all others"};
  AddNccl({.ranks = {}, .lines = {"all came"}}, report);
  EXPECT_EQ(report.culprit.ranks, std::vector<int>{0});
  EXPECT_EQ(report.nccl, std::vector<std::string>{"all came"});
  AddNccl({.ranks = {1}, .reason = "has not come"}, report);
  EXPECT_EQ(report.culprit.ranks, std::vector<int>{1});
  EXPECT_EQ(report.culprit.reason, "has not come");
  report.activities = {{.rank = 0}, {.rank = 2, .place = {.state = 'T'}}};
  report.culprit = FindAwaited(report.activities);
  AddNccl({.ranks = {1}, .reason = "has not come"}, report);
  EXPECT_EQ(report.culprit.ranks, std::vector<int>{2}) << "a stopped process is certain";
}

}  // namespace
}  // namespace ddprun::launcher
