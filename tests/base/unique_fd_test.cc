#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

bool IsOpen(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(UniqueFd, ClosesWhatItOwnsOnce) {
  const int number = ::open("/dev/null", O_RDONLY);
  {
    UniqueFd first(number);
    const UniqueFd second(std::move(first));
    EXPECT_FALSE(first.valid());
    EXPECT_TRUE(IsOpen(second.get()));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFd, ClosesTheOldOneWhenItTakesANewOne) {
  const int number = ::open("/dev/null", O_RDONLY);
  UniqueFd fd(number);
  fd = UniqueFd(::open("/dev/null", O_RDONLY));
  EXPECT_FALSE(IsOpen(number));
  EXPECT_TRUE(IsOpen(fd.get()));
}

TEST(UniqueFd, LetsGoOnRelease) {
  UniqueFd fd(::open("/dev/null", O_RDONLY));
  const int number = fd.release();
  fd.reset();
  EXPECT_TRUE(IsOpen(number));
  ::close(number);
}

}  // namespace
}  // namespace ddprun
