#include <gmock/gmock.h>

#include "launcher/cli/target.h"
#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;

class FindProgramTest : public testing::Test {
 protected:
  TempFolder first_;
  TempFolder second_;
  Environment env_{Environment::Variables{{"PATH", first_.path() + ":" + second_.path()}}};
};

TEST_F(FindProgramTest, TakesTheFirstExecutableInPath) {
  first_.File("tool");
  const std::string wanted = second_.File("tool", /*executable=*/true);
  EXPECT_EQ(*FindProgram("tool", env_), wanted);
}

TEST_F(FindProgramTest, TakesAPathAsItIs) {
  const std::string file = first_.File("tool", /*executable=*/true);
  EXPECT_EQ(*FindProgram(file, Environment()), file);
}

TEST_F(FindProgramTest, TellsAbsentFromNotExecutable) {
  const auto absent = FindProgram(first_.path() + "/tool", env_);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  const auto plain = FindProgram(first_.File("plain"), env_);
  EXPECT_EQ(plain.error().code, Code::kNotExecutable);
  EXPECT_THAT(plain.error().hint, HasSubstr("chmod +x"));
  const auto folder = FindProgram(first_.path(), env_);
  EXPECT_EQ(folder.error().code, Code::kNotExecutable);
  EXPECT_THAT(folder.error().what, HasSubstr("is a folder"));
}

TEST_F(FindProgramTest, SuggestsTheNearestName) {
  first_.File("train_model", /*executable=*/true);
  EXPECT_EQ(FindProgram("trian_model", env_).error().hint, "Did you mean train_model?");
  EXPECT_EQ(FindProgram(first_.path() + "/train_modle", env_).error().hint,
            "Did you mean " + first_.path() + "/train_model?");
}

TEST_F(FindProgramTest, SaysWhichFolderIsMissing) {
  EXPECT_THAT(FindProgram(first_.path() + "/absent/tool", env_).error().hint,
              HasSubstr("There is no folder " + first_.path() + "/absent"));
}

}  // namespace
}  // namespace ddprun::launcher
