#include "launcher/process/stray_sweep.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include <asio/post.hpp>

namespace ddprun::launcher {
namespace {

using testing::IsEmpty;

// A child that does nothing, not for ever even if a test crashes.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0) ::alarm(60);
    while (pid_ == 0) ::pause();
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(StraySweep, HasNothingToDoWhereEveryChildIsKnown) {
  const Child child;
  asio::io_context io;
  LoopClock clock(io);
  bool done = false;
  StraySweep sweep(
      clock, [&](pid_t pid) { return pid == child.pid(); }, {}, SweepTimes(),
      [&](const std::vector<pid_t>& left) {
        done = true;
        EXPECT_THAT(left, IsEmpty());
      });
  EXPECT_FALSE(done);
  io.run();
  EXPECT_TRUE(done);
}

TEST(StraySweep, LooksAtNothingOnceItIsDestroyedThoughItsTimerIsDue) {
  const Child child;
  asio::io_context io;
  LoopClock clock(io);
  int asked = 0;
  const auto known = [&](pid_t) {
    ++asked;
    return false;
  };
  auto sweep = std::make_unique<StraySweep>(clock, known, std::set<pid_t>(),
                                            SweepTimes{.grace = std::chrono::hours(1)},
                                            [](const std::vector<pid_t>&) { FAIL(); });
  // So that both handlers are due in one turn of the loop; shorter, and this test sees nothing.
  ::poll(nullptr, 0, 100);
  asio::post(io, [&] {
    sweep.reset();
    asked = 0;
  });
  io.run();
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace ddprun::launcher
