#include "launcher/process/posix_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

namespace ddprun::launcher {
namespace {

class PosixProcessTest : public testing::Test {
 protected:
  PosixProcessTest() {
    host_.OnExit([this](pid_t, const ProcessExit& exit) { exit_ = exit; });
  }
  ~PosixProcessTest() override { guard_.Dismiss(); }

  // A child of ours, by whomever, that has ended with 7 and is not reaped.
  static pid_t EndedChild() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(7);
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
    return pid;
  }

  Guard guard_ = *Guard::Start("job of a test", "");
  SignalMask mask_;
  asio::io_context io_;
  LoopClock clock_{io_};
  PosixProcessHost host_{io_, clock_, mask_, guard_};
  std::optional<ProcessExit> exit_;
};

TEST_F(PosixProcessTest, TellsHowAnAdoptedProcessEndedThatHadEndedBefore) {
  host_.ExpectAdoption(true);
  const pid_t pid = EndedChild();
  host_.OnChildSignal();
  ASSERT_TRUE(host_.Adopt(pid).ok());
  host_.ExpectAdoption(false);
  io_.run();
  EXPECT_EQ(exit_, ProcessExit(Exited{7}));
}

TEST_F(PosixProcessTest, IsNotHeldUpByAGuardThatIsFrozen) {
  ASSERT_EQ(::kill(guard_.pid(), SIGSTOP), 0);
  for (int message = 0; message < 20'000; ++message) guard_.Forget(1'000'000'000);
  guard_.Dismiss();
}

TEST_F(PosixProcessTest, ReapsStraysWhenNoneIsToBeAdopted) {
  const pid_t pid = EndedChild();
  host_.OnChildSignal();
  EXPECT_EQ(::waitpid(pid, nullptr, 0), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(PosixProcessTest, ReapsStraysThatCameWhileOthersWereToBeAdopted) {
  host_.ExpectAdoption(true);
  const pid_t pid = EndedChild();
  host_.OnChildSignal();
  host_.ExpectAdoption(false);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace ddprun::launcher
