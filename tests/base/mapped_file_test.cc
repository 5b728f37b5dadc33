#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace ddprun {
namespace {

std::string NewFile(const std::string& text) {
  const std::string path = testing::TempDir() + "mapped_file_test." + std::to_string(getpid());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(MappedFile, ShowsTheBytesAlsoAfterAMove) {
  const std::string path = NewFile("some text");
  Result<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.has_value());
  MappedFile moved = *std::move(file);
  unlink(path.c_str());
  ASSERT_EQ(moved.bytes().size(), 9U);
  EXPECT_EQ(std::memcmp(moved.bytes().data(), "some text", 9), 0);
}

TEST(MappedFile, IsEmptyForAnEmptyFile) {
  const std::string path = NewFile("");
  const Result<MappedFile> file = MappedFile::Open(path);
  unlink(path.c_str());
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, SaysWhyItCannotBeRead) {
  const Result<MappedFile> absent = MappedFile::Open(testing::TempDir() + "absent");
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().what, "No such file or directory");
  const Result<MappedFile> folder = MappedFile::Open(testing::TempDir());
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder.error().what, "it is no regular file");
}

TEST(MappedFile, DoesNotWaitForThePartnerOfAPipe) {
  const std::string path = NewFile("");
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(MappedFile::Open(path).has_value());
  unlink(path.c_str());
}

}  // namespace
}  // namespace ddprun
