#include "launcher/output/log_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/output/log_file.h"
#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(LogFolder, IsNamedAfterTheRunAndNew) {
  const TempFolder temp;
  const std::string base = temp.path() + "/a/b";
  const Result<LogFolder> first = LogFolder::Create(base, "run");
  const Result<LogFolder> second = LogFolder::Create(base, "run");
  ASSERT_TRUE(first && second);
  EXPECT_THAT(first->path(), MatchesRegex(".*/a/b/run_[a-z0-9]{8}"));
  EXPECT_NE(first->path(), second->path());
  EXPECT_TRUE(fs::is_directory(first->path()));
}

TEST(LogFolder, TakesARunIdWithSlashes) {
  const TempFolder temp;
  const Result<LogFolder> logs = LogFolder::Create(temp.path(), "team/run");
  ASSERT_TRUE(logs);
  EXPECT_THAT(logs->path(), MatchesRegex(".*/team_run_[a-z0-9]{8}"));
}

TEST(LogFolder, HasAFolderForEachRankOfAnAttempt) {
  const TempFolder temp;
  const LogFolder logs = LogFolder::In(temp.path());
  const Result<std::string> attempt = logs.MakeAttempt(3, 2);
  ASSERT_TRUE(attempt);
  EXPECT_EQ(*attempt, temp.path() + "/attempt_3");
  EXPECT_TRUE(fs::is_directory(*attempt + "/0"));
  EXPECT_TRUE(fs::is_directory(*attempt + "/1"));
  EXPECT_FALSE(fs::exists(*attempt + "/2"));
}

TEST(LogFolder, NeverUsesTheFolderOfAnEarlierAttempt) {
  const TempFolder temp;
  const LogFolder logs = LogFolder::In(temp.path());
  ASSERT_TRUE(logs.MakeAttempt(0, 1));
  EXPECT_EQ(*logs.MakeAttempt(0, 1), temp.path() + "/attempt_0.2");
  EXPECT_EQ(*logs.MakeAttempt(0, 1), temp.path() + "/attempt_0.3");
}

TEST(LogFolder, IsNoneForDevNull) {
  const Result<LogFolder> logs = LogFolder::Create("/dev/null", "run");
  ASSERT_TRUE(logs);
  EXPECT_EQ(logs->path(), "");
  EXPECT_EQ(*logs->MakeAttempt(0, 2), "");
}

TEST(LogFolder, SaysWhatItCannotMake) {
  const Result<LogFolder> logs = LogFolder::Create("/proc/self/nothing", "run");
  ASSERT_FALSE(logs);
  EXPECT_THAT(logs.error().where, HasSubstr("/proc/self/nothing"));
  EXPECT_FALSE(logs.error().hint.empty());
}

TEST(LogFile, OfOurOwnIsAddedTo) {
  const TempFolder folder;
  const std::string path = folder.path() + "/made/agent.log";
  asio::io_context io;
  FileWriter writer(io);
  for (const char* line : {"first\n", "second\n"}) {
    Result<LogFile> file = LogFile::OpenLauncherLog(path, writer, nullptr);
    ASSERT_TRUE(file);
    file->Write(line);
  }
  io.run();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "first\nsecond\n");
  const Result<LogFile> below_a_file = LogFile::OpenLauncherLog(path + "/below", writer, nullptr);
  ASSERT_FALSE(below_a_file);
  EXPECT_EQ(below_a_file.error().what,
            "The log cannot be written to " + path + "/below: Not a directory.");
}

TEST(LogFile, SaysOnceThatTheDiskIsFullAndGoesOn) {
  struct stat info {};
  if (::stat("/dev/full", &info) != 0) GTEST_FAIL() << "this system has no /dev/full";
  std::vector<std::string> warnings;
  asio::io_context io;
  FileWriter writer(io);
  Result<LogFile> file = LogFile::Open("/dev/full", writer,
                                       [&](const std::string& text) { warnings.push_back(text); });
  ASSERT_TRUE(file);
  file->Write("one\n");
  file->Write("two\n");
  io.run();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("/dev/full"));
  EXPECT_THAT(warnings[0], HasSubstr("No space left"));
}

}  // namespace
}  // namespace ddprun::launcher
