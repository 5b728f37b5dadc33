#include "base/sealed_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace ddprun {
namespace {

std::string PathOf(const UniqueFd& file) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.get());
}

TEST(SealedMemory, IsOpenedByItsPath) {
  const UniqueFd memory = *CreateNodeMemory();
  const Result<UniqueFd> again = OpenSealedMemory(PathOf(memory), kNodeMemorySeals);
  ASSERT_TRUE(again) << Render(again.error());
  EXPECT_EQ(::ftruncate(again->get(), 4096), 0);
  struct stat status {};
  ASSERT_EQ(::fstat(memory.get(), &status), 0);
  EXPECT_EQ(status.st_size, 4096);
}

TEST(SealedMemory, MayHaveSealsThatTheKernelHasAdded) {
  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_FALSE(HasSeals(file, kNodeMemorySeals));
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, kFlightRecorderSeals), 0);
  EXPECT_TRUE(HasSeals(file, kNodeMemorySeals));
}

TEST(SealedMemory, IsNothingThatAnybodyNames) {
  const std::string path = testing::TempDir() + "sealed_memory." + std::to_string(::getpid());
  std::ofstream(path) << "kept";
  const UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC));
  for (const std::string& other : {path, PathOf(unsealed), std::string("/dev/zero"), path + "/no"})
    EXPECT_FALSE(OpenSealedMemory(other, kNodeMemorySeals)) << other;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "kept");
  ::unlink(path.c_str());
  // Opening it would wait for a reader.
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(OpenSealedMemory(path, kNodeMemorySeals));
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace ddprun
