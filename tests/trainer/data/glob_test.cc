#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/trainer/data/scratch_folder.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ExpandGlobTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"b.txt", "a.txt", "a.md", ".hidden.txt", "sub/c.txt", "sub/deep/d.txt", ".git/e.txt"}) {
      folder_.Write(name, "x");
    }
  }

  // Matches, relative to the folder.
  std::vector<std::string> Expand(const std::string& pattern) const {
    const auto files = ExpandGlob(folder_.Path(pattern));
    if (!files.has_value()) return {"error: " + files.error().what};
    std::vector<std::string> names;
    for (const std::string& file : *files) names.push_back(file.substr(folder_.Path().size()));
    return names;
  }

  Error ErrorOf(const std::string& pattern) const {
    const auto files = ExpandGlob(folder_.Path(pattern));
    return files.has_value() ? Error{} : files.error();
  }

  ScratchFolder folder_;
};

TEST_F(ExpandGlobTest, MatchesWithinAFolderSortedByName) {
  EXPECT_THAT(Expand("*.txt"), ElementsAre("a.txt", "b.txt"));
  EXPECT_THAT(Expand("[ab].*"), ElementsAre("a.md", "a.txt", "b.txt"));
  EXPECT_THAT(Expand("?.md"), ElementsAre("a.md"));
}

TEST_F(ExpandGlobTest, MatchesFoldersWithTwoStars) {
  EXPECT_THAT(Expand("**/*.txt"), ElementsAre("a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"));
  EXPECT_THAT(Expand("sub/**"), ElementsAre("sub/c.txt", "sub/deep/d.txt"));
  EXPECT_THAT(Expand("*/*.txt"), ElementsAre("sub/c.txt"));
}

TEST_F(ExpandGlobTest, TakesHiddenNamesOnlyWhenAskedFor) {
  EXPECT_THAT(Expand(".h*"), ElementsAre(".hidden.txt"));
  EXPECT_THAT(Expand(".git/*"), ElementsAre(".git/e.txt"));
}

TEST_F(ExpandGlobTest, DoesNotFollowLinksToFolders) {
  std::filesystem::create_directory_symlink(folder_.Path(), folder_.Path("sub/loop"));
  EXPECT_THAT(Expand("**/d.txt"), ElementsAre("sub/deep/d.txt"));
}

TEST_F(ExpandGlobTest, TakesAnExistingPathAsItIs) {
  folder_.Write("x[1].txt", "x");
  folder_.Write("x1.txt", "x");
  EXPECT_THAT(Expand("x[1].txt"), ElementsAre("x[1].txt"));
}

TEST_F(ExpandGlobTest, NamesPatternAndFolderWhenNothingMatches) {
  const Error error = ErrorOf("sub/*.csv");
  EXPECT_EQ(error.code, Code::kUsage);
  EXPECT_THAT(error.what, AllOf(HasSubstr("sub/*.csv"), HasSubstr("searched the folder"),
                                HasSubstr("2 entries")));
}

TEST_F(ExpandGlobTest, SaysThatTheFolderIsMissing) {
  EXPECT_THAT(ErrorOf("nowhere/*.txt").what, HasSubstr("there is no folder"));
  EXPECT_THAT(ErrorOf("nowhere/a.txt").what, HasSubstr("there is no folder"));
}

TEST_F(ExpandGlobTest, SuggestsTheNearestNameForAMissingFile) {
  const Error error = ErrorOf("sub/c.tex");
  EXPECT_THAT(error.what, HasSubstr("There is no file"));
  EXPECT_THAT(error.hint, HasSubstr("sub/c.txt"));
}

TEST_F(ExpandGlobTest, RefusesAFolder) {
  const Error error = ErrorOf("sub");
  EXPECT_EQ(error.code, Code::kUsage);
  EXPECT_THAT(error.what, HasSubstr("is a folder"));
  EXPECT_THAT(error.hint, HasSubstr("sub/**"));
}

TEST_F(ExpandGlobTest, SaysWhyAFileCannotBeReached) {
  std::filesystem::create_symlink(folder_.Path("loop"), folder_.Path("loop"));
  EXPECT_THAT(ErrorOf("loop").what, HasSubstr("symbolic links"));
}

}  // namespace
}  // namespace ddprun::trainer
