#include "base/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AtomicFileTest : public testing::Test {
 protected:
  AtomicFileTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~AtomicFileTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  size_t Entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const fs::path folder_ = testing::TempDir() + "whole_file_test." + std::to_string(::getpid());
};

TEST_F(AtomicFileTest, ReplacesTheOldBytesAtOnce) {
  const std::string path = Path("a");
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->Write("01 and more").ok());
    ASSERT_TRUE(file->RewriteBeginning("10").ok());
    EXPECT_EQ(Read(path), "old");
    ASSERT_TRUE(file->Finish().ok());
  }
  EXPECT_EQ(Read(path), "10 and more");
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(AtomicFileTest, LeavesNothingOfWhatIsNotFinished) {
  const std::string path = Path("a");
  ASSERT_TRUE(WriteFileAtomically(path, "old", Durability::kUnsynced).ok());
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.has_value() && file->Write("new").ok());
  }
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(AtomicFileTest, SaysWhyAFileCannotBeWritten) {
  const Status missing = WriteFileAtomically(Path("none/a"), "text");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().what, HasSubstr("none/a\" cannot be written: No such file"));
  fs::create_directory(Path("b"));
  EXPECT_THAT(WriteFileAtomically(Path("b"), "text").error().what, HasSubstr("Is a directory"));
  ::mkfifo(Path("pipe").c_str(), 0600);
  EXPECT_THAT(WriteFileAtomically(Path("pipe"), "text").error().hint, HasSubstr("is not replaced"));
  EXPECT_TRUE(fs::is_fifo(Path("pipe")));
  EXPECT_EQ(Entries(), 2U);
}

TEST_F(AtomicFileTest, SaysThatTheDiskIsFull) {
  // Writing to this device fails as writing to a full disk does.
  const UniqueFd fd(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Status status = WriteAll(fd.get(), "text", "weights");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().where, "weights");
  EXPECT_THAT(status.error().what, HasSubstr("No space left on device"));
  EXPECT_THAT(status.error().hint, HasSubstr("The disk is full"));
}

TEST_F(AtomicFileTest, KeepsTheOldFileWhereANewOneBecomesTooLarge) {
  const std::string path = Path("a");
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 100, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Status status = WriteFileAtomically(path, std::string(1000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().hint, HasSubstr("ulimit -f"));
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(AtomicFileTest, DoesNotTouchWhatAnotherOfItsNumberHasLeft) {
  const std::string left = Path("a." + std::to_string(::getpid()) + ".tmp");
  Write(left, "of a process in another container");
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "new").ok());
  EXPECT_EQ(Read(Path("a")), "new");
  EXPECT_EQ(Read(left), "of a process in another container");
}

}  // namespace
}  // namespace ddprun
