#include "launcher/report/report_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

size_t CountFiles(const std::string& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(ReportPath, IsOneOfEachNode) {
  EXPECT_EQ(ReportPath("r.json", 0, "a", false), "r.json");
  EXPECT_EQ(ReportPath("r.json", 1, "a", true), "r.node1.json");
  EXPECT_EQ(ReportPath("/x.y/report", 1, "a", true), "/x.y/report.node1");
  EXPECT_EQ(ReportPath("/x/.hidden", 1, "a", true), "/x/.hidden.node1");
  EXPECT_EQ(ReportPath("r-%n.json", 3, "a", true), "r-3.json");
  EXPECT_EQ(ReportPath("%h.json", 3, "a", true), "a.json");
  EXPECT_EQ(ReportPath("100%%.json", 3, "a", false), "100%.json");
  EXPECT_EQ(ReportPath("50%x%", 3, "a", false), "50%x%");
  EXPECT_EQ(ReportPath("/dev/stdout", 3, "a", true), "/dev/stdout");
  const std::string unranked = "unranked-a-" + std::to_string(getpid());
  EXPECT_EQ(ReportPath("r.json", std::nullopt, "a", true), "r." + unranked + ".json");
  EXPECT_EQ(ReportPath("r-%n.json", std::nullopt, "a", true), "r-" + unranked + ".json");
}

TEST(ReportFile, ReplacesTheOneBefore) {
  const TempFolder folder;
  const std::string path = folder.path() + "/r.json";
  ASSERT_TRUE(WriteReportFile(path, "one").ok());
  ASSERT_TRUE(WriteReportFile(path, "two").ok());
  EXPECT_EQ(Read(path), "two");
  EXPECT_EQ(CountFiles(folder.path()), 1u);
}

TEST(ReportFile, IsCheckedBeforeWithoutATrace) {
  const TempFolder folder;
  const std::string path = folder.path() + "/r.json";
  EXPECT_TRUE(CheckReportFile(path).ok());
  EXPECT_EQ(CountFiles(folder.path()), 0u);
  ASSERT_TRUE(WriteReportFile(path, "old").ok());
  EXPECT_TRUE(CheckReportFile(path).ok());
  EXPECT_EQ(Read(path), "old");
}

TEST(ReportFile, CannotBeAFolderOrInOneThatIsNotThere) {
  const TempFolder folder;
  for (const std::string& path : {folder.path(), folder.path() + "/none/r.json"}) {
    const Status checked = CheckReportFile(path);
    ASSERT_FALSE(checked.ok()) << path;
    EXPECT_EQ(checked.error().code, Code::kUsage);
    EXPECT_THAT(checked.error().what, HasSubstr(path));
    EXPECT_FALSE(WriteReportFile(path, "x").ok()) << path;
  }
  EXPECT_EQ(CountFiles(folder.path()), 0u);
}

TEST(ReportFile, MayBeADevice) {
  EXPECT_TRUE(CheckReportFile("/dev/null").ok());
  EXPECT_TRUE(WriteReportFile("/dev/null", "x").ok());
  struct stat status {};
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

TEST(ReportFile, DoesNotWaitForAReaderOfAPipe) {
  const TempFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(CheckReportFile(path).ok());
  EXPECT_FALSE(WriteReportFile(path, "x").ok());
}

}  // namespace
}  // namespace ddprun::launcher
