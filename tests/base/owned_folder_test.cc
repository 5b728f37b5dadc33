#include "base/owned_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/atomic_file.h"
#include "base/unnamed_file.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class OwnedFolderTest : public testing::Test {
 protected:
  OwnedFolderTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~OwnedFolderTest() override { fs::remove_all(root_); }

  std::string Path(const std::string& name) const { return (root_ / name).string(); }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << text;
  }
  // Below the root, without lists.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.path().filename() == ".ddprun-files.json") continue;
      names.push_back(entry.path().lexically_relative(root_).string());
    }
    std::ranges::sort(names);
    return names;
  }
  // A folder with these files, made whole.
  std::string Make(const std::string& name, const std::vector<std::string>& files) const {
    AtomicFolder folder = *AtomicFolder::Create(Path(name));
    for (const std::string& file : files) {
      const fs::path path = folder.path() + "/" + file;
      fs::create_directories(path.parent_path());
      std::ofstream(path) << "new";
    }
    Result<std::string> aside = folder.Finish();
    return aside ? *aside : "error: " + aside.error().what;
  }
  std::string Complaint(const std::string& name) const {
    const Status status = CheckOnlyOwnEntries(Path(name), IsListed);
    return status.ok() ? "" : status.error().what;
  }

  // As the system names it, without a link.
  const fs::path root_ =
      fs::canonical(testing::TempDir()) / ("owned_folder_test." + std::to_string(::getpid()));
};

TEST_F(OwnedFolderTest, ReplacesWhatItWroteItself) {
  EXPECT_EQ(Complaint("model"), "");
  EXPECT_EQ(Make("model", {"a", "b", "in/c"}), "");
  EXPECT_EQ(Complaint("model"), "");
  fs::remove(Path("model/a"));  // what is missing is not lost by being replaced
  EXPECT_EQ(Complaint("model"), "");
  EXPECT_EQ(Make("model", {"d"}), "");
  EXPECT_THAT(Names(), ElementsAre("model", "model/d"));
  EXPECT_EQ(Make("empty/", {"a"}), "");
  EXPECT_THAT(Names(), ElementsAre("empty", "empty/a", "model", "model/d"));
}

TEST_F(OwnedFolderTest, KnowsWhatItDidNotWrite) {
  fs::create_directory(Path("empty"));
  EXPECT_EQ(Complaint("empty"), "");
  Write("own/a", "mine");
  EXPECT_THAT(Complaint("own"), HasSubstr("did not write"));
  for (const char* change : {"mine", "in/mine", "a", "folder"}) {
    SCOPED_TRACE(change);
    Make("model", {"a", "in/b"});
    if (std::string(change) == "folder") fs::create_directory(Path("model/folder"));
    if (std::string(change) != "folder") Write("model/" + std::string(change), "changed");
    EXPECT_THAT(Complaint("model"), HasSubstr("\"" + std::string(change) + "\""));
    EXPECT_FALSE(RemoveOwnFolder(Path("model"), IsListed).ok());
    EXPECT_TRUE(fs::exists(Path("model/in/b")));
    fs::remove_all(Path("model"));
  }
  Write("file", "text");
  EXPECT_THAT(Complaint("file"), HasSubstr("Not a directory"));
}

TEST_F(OwnedFolderTest, KeepsAsideWhatItDidNotWrite) {
  Make("model", {"a"});
  Write("model/mine", "kept");
  EXPECT_EQ(Make("model", {"b"}), Path("model.aside-1"));
  EXPECT_EQ(Read("model.aside-1/mine"), "kept");
  EXPECT_THAT(Names(), ElementsAre("model", "model.aside-1", "model.aside-1/a",
                                   "model.aside-1/mine", "model/b"));
  Write("model/mine", "too");
  EXPECT_EQ(Make("model", {"b"}), Path("model.aside-2"));
}

TEST_F(OwnedFolderTest, PublishesNothingOfAProcessThatWasKilled) {
  const std::string left = "model." + std::to_string(::getpid()) + ".tmp";
  Write(left + "/shard", "half");
  EXPECT_EQ(Make("model", {"a"}), "");
  EXPECT_THAT(Names(), ElementsAre("model", left, left + "/shard", "model/a"));
}

TEST_F(OwnedFolderTest, LeavesNothingOfWhatIsNotFinished) {
  Write("deep/mine", "kept");
  {
    const auto folder = AtomicFolder::Create(Path("deep/er/model"));
    ASSERT_TRUE(folder);
    std::ofstream(folder->path() + "/a") << "new";
  }
  EXPECT_THAT(Names(), ElementsAre("deep", "deep/mine"));
  EXPECT_FALSE(AtomicFolder::Create(Path("deep/mine/model")));
  EXPECT_THAT(Names(), ElementsAre("deep", "deep/mine"));
}

TEST_F(OwnedFolderTest, TakesNoPlaceOfAFile) {
  Write("taken", "text");
  EXPECT_THAT(Make("taken", {"a"}), HasSubstr("Not a directory"));
  EXPECT_THAT(Names(), ElementsAre("taken"));
  EXPECT_EQ(Read("taken"), "text");
}

TEST_F(OwnedFolderTest, KeepsWhoMayReadAFolder) {
  fs::create_directory(Path("model"));
  fs::permissions(Path("model"), fs::perms::owner_all);
  Make("model", {"a"});
  EXPECT_EQ(fs::status(Path("model")).permissions(), fs::perms::owner_all);
}

TEST_F(OwnedFolderTest, FollowsALinkToAFolder) {
  fs::create_directory(Path("disk"));
  fs::create_directory_symlink(Path("disk"), Path("model"));
  EXPECT_EQ(Make("model", {"a"}), "");
  EXPECT_THAT(Names(), ElementsAre("disk", "disk/a", "model"));
}

TEST_F(OwnedFolderTest, LeavesNoNameOfAnUnnamedFile) {
  const auto file = OpenUnnamedFile(root_.string());
  ASSERT_TRUE(file);
  EXPECT_EQ(WriteBytes(file->get(), "text"), 0);
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_FALSE(OpenUnnamedFile(Path("none")));
}

TEST_F(OwnedFolderTest, RemovesWhatKilledProcessesHaveLeft) {
  Make("old", {"a"});
  const pid_t child = ::fork();
  if (child == 0) {
    const auto half = AtomicFolder::Create(Path("model"));
    const auto other = AtomicFolder::Create(Path("model-2"));
    if (half && other) std::ofstream(half->path() + "/half") << "written";
    // Between the exchange of the two folders and the end of the one before.
    fs::rename(Path("old"), Path("model.1-2.tmp"));
    ::_exit(half && other ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto at_work = AtomicFolder::Create(Path("model"));
  ASSERT_TRUE(at_work);
  // A file of another program.
  Write("model.12.tmp/mine", "kept");
  Write("model.new.tmp/.ddprun-unfinished", "");
  Write("model.13.tmp", "a file");
  EXPECT_EQ(Make("model", {"a"}), "");
  EXPECT_THAT(Names(), UnorderedElementsAre(
                           "model", "model-2." + std::to_string(child) + ".tmp",
                           "model-2." + std::to_string(child) + ".tmp/.ddprun-unfinished",
                           "model." + std::to_string(::getpid()) + ".tmp",
                           "model." + std::to_string(::getpid()) + ".tmp/.ddprun-unfinished",
                           "model.12.tmp", "model.12.tmp/mine", "model.13.tmp", "model.new.tmp",
                           "model.new.tmp/.ddprun-unfinished", "model/a"));
}

}  // namespace
}  // namespace ddprun
