// Arrays that may be larger than the memory.
#include "base/large_array.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/failure.h"

namespace ddprun {
namespace {

// The same calls on an array that is in memory, on one that moves to a file, on one that begins
// there, and on a vector.
TEST(LargeArray, IsAVectorInMemoryAndInAFile) {
  for (const size_t most : {LargeBytes::kMostInMemory, size_t{50'000}, size_t{0}}) {
    std::mt19937 random(3);
    LargeArray<int32_t> array(most);
    std::vector<int32_t> expected;
    EXPECT_TRUE(array.empty());
    for (int i = 0; i < 3000; ++i) {
      const auto count = random() % 40;
      switch (random() % 5) {
        case 0:
          array.Add(i);
          expected.push_back(i);
          break;
        case 1:
          if (expected.empty()) break;
          array.RemoveLast();
          expected.pop_back();
          break;
        case 2: {  // longer, whose new elements have any value
          const size_t before = array.size();
          array.Resize(before + count);
          for (size_t at = before; at < array.size(); ++at) array[at] = static_cast<int32_t>(at);
          for (size_t at = before; at < array.size(); ++at)
            expected.push_back(static_cast<int32_t>(at));
          break;
        }
        default:
          const std::vector<int32_t> more(count, i);
          array.Append(more.data(), more.size());
          expected.insert(expected.end(), more.begin(), more.end());
      }
    }
    EXPECT_EQ(std::vector<int32_t>(array.begin(), array.end()), expected);
    LargeArray<int32_t> moved = std::move(array);
    LargeArray<int32_t> assigned(most);
    assigned.Add(1);
    assigned = std::move(moved);
    EXPECT_EQ(std::vector<int32_t>(assigned.begin(), assigned.end()), expected);
  }
}

TEST(LargeBytes, AreInAFileAboveTheirLimit) {
  LargeBytes bytes(100'000);
  bytes.Reserve(100'000);
  EXPECT_FALSE(bytes.is_file());
  bytes.Grow(100'001);
  EXPECT_TRUE(bytes.is_file());
  EXPECT_GE(bytes.capacity(), 100'001);
}

TEST(LargeBytes, AreInMemoryIfThereIsNoFolderForFiles) {
  for (const char* const folder : {"/proc", "/no/such/folder"}) {
    ::setenv("TMPDIR", folder, 1);
    LargeBytes bytes(10);
    bytes.Reserve(5);
    bytes.data()[4] = std::byte{7};
    bytes.Reserve(5000);
    EXPECT_FALSE(bytes.is_file());
    EXPECT_EQ(bytes.data()[4], std::byte{7});
    try {  // more than any machine's memory
      bytes.Reserve(size_t{1} << 60);
      ADD_FAILURE() << "no error";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().title, "CANNOT WRITE A FILE");
      EXPECT_EQ(failure.error().where, folder);
      EXPECT_NE(failure.error().hint.find("TMPDIR"), std::string::npos);
    }
    EXPECT_EQ(bytes.data()[4], std::byte{7});
  }
  ::unsetenv("TMPDIR");
}

// A write beyond the room on disk would be a SIGBUS. A limit of the size of files stands for a full
// disk.
TEST(LargeBytes, MoveToMemoryIfTheDiskIsFull) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 200'000, .rlim_max = 200'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    LargeBytes bytes(1000);
    bytes.Reserve(100'000);
    if (!bytes.is_file()) ::_exit(1);
    bytes.data()[99'999] = std::byte{7};
    bytes.Reserve(300'000);
    bytes.data()[299'999] = std::byte{8};
    ::_exit(!bytes.is_file() && bytes.data()[99'999] == std::byte{7} ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace ddprun
