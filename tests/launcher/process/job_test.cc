#include "launcher/process/job.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

using testing::MatchesRegex;
using testing::StartsWith;

TEST(Job, HasAnIdOfItsOwn) {
  EXPECT_NE(MakeJobId(Environment()), MakeJobId(Environment()));
  EXPECT_THAT(MakeJobId(Environment()), MatchesRegex("[0-9a-f]{16}"));
}

TEST(Job, WithinAnotherJobSaysSoInItsId) {
  EXPECT_THAT(MakeJobId(Environment(Environment::Variables{{"DDPRUN_JOB_ID", "outer"}})),
              StartsWith("outer/"));
}

TEST(Job, GetsAUuidAsRunId) {
  EXPECT_THAT(MakeUuid(), MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                                       "[0-9a-f]{12}"));
}

TEST(JobFolder, IsPrivateAndGoesAwayWithItsContents) {
  const TempFolder temp;
  std::string path;
  {
    JobFolder folder(Environment(Environment::Variables{{"TMPDIR", temp.path()}}));
    path = folder.path();
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(folder.Create().ok());
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0700u);
    std::filesystem::create_directories(path + "/a/b");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(JobFolder, NamesTheFolderThatCannotBeWrittenTo) {
  JobFolder folder(Environment(Environment::Variables{{"TMPDIR", "/nowhere"}}));
  const Status made = folder.Create();
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().what, testing::HasSubstr("/nowhere"));
}

TEST(JobFolder, LeavesAFolderThatWasThereBefore) {
  const TempFolder temp;
  std::string path;
  {
    JobFolder folder(Environment(Environment::Variables{{"TMPDIR", temp.path()}}));
    path = folder.path();
    std::filesystem::create_directory(path);
    EXPECT_FALSE(folder.Create().ok());
  }
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace ddprun::launcher
