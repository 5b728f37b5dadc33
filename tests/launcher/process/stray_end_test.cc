// How a StraySweep ends processes.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "launcher/process/stray_sweep.h"

namespace ddprun::launcher {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

// A child in a session of its own that waits, or works without a pause if it is `busy`; not for
// ever even if a test crashes.
class Stray {
 public:
  explicit Stray(bool ignores_sigterm = false, bool busy = false) {
    int ready[2];
    if (::pipe(ready) != 0) ::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::alarm(60);
      ::setsid();
      if (ignores_sigterm) ::signal(SIGTERM, SIG_IGN);
      ::close(ready[0]);
      ::close(ready[1]);
      while (!busy) ::pause();
      for (volatile int turns = 0;;) turns = turns + 1;
    }
    ::close(ready[1]);
    char end = 0;
    if (::read(ready[0], &end, 1) < 0) ::abort();
    ::close(ready[0]);
  }
  ~Stray() {
    if (!ended_) ::kill(pid_, SIGKILL);
    EndedBy();
  }
  Stray(const Stray&) = delete;
  Stray& operator=(const Stray&) = delete;

  pid_t pid() const { return pid_; }
  // The signal that ended it; waits for its end. 0: none.
  int EndedBy() {
    int status = 0;
    if (!ended_ && ::waitpid(pid_, &status, 0) == pid_) {
      ended_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
    return ended_.value_or(0);
  }

 private:
  pid_t pid_ = 0;
  std::optional<int> ended_;
};

// Returns the processes that are left after the sweep.
std::vector<pid_t> Sweep(std::set<pid_t> sessions,
                         const SweepTimes& times,
                         const InheritedChildren& others = {}) {
  asio::io_context io;
  std::vector<pid_t> left;
  const auto unknown = [](pid_t) { return false; };
  LoopClock clock(io);
  StraySweep sweep(
      clock, unknown, std::move(sessions), times,
      [&](std::vector<pid_t> pids) { left = std::move(pids); }, others);
  io.run();
  return left;
}

TEST(StraySweep, AsksThoseInAWorkersSessionToEndAtOnce) {
  Stray stray;
  EXPECT_THAT(Sweep({stray.pid()}, {.grace = hours(1), .limit = hours(1)}), IsEmpty());
  EXPECT_EQ(stray.EndedBy(), SIGTERM);
}

TEST(StraySweep, KillsThoseElsewhereWhenTheGraceIsOver) {
  Stray stray;
  EXPECT_THAT(Sweep({}, {.grace = milliseconds(1), .limit = hours(1)}), IsEmpty());
  EXPECT_EQ(stray.EndedBy(), SIGKILL);
}

TEST(StraySweep, KillsWhatDoesNotEndWhenAsked) {
  Stray deaf(/*ignores_sigterm=*/true);
  EXPECT_THAT(Sweep({deaf.pid()}, {.grace = milliseconds(1), .limit = hours(1)}), IsEmpty());
  EXPECT_EQ(deaf.EndedBy(), SIGKILL);
}

TEST(StraySweep, GivesABusyProcessMoreTime) {
  const SweepTimes times{
      .grace = milliseconds(1), .busy_grace = milliseconds(400), .limit = hours(1)};
  Stray busy(/*ignores_sigterm=*/true, /*busy=*/true);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(Sweep({}, times), IsEmpty());
  EXPECT_GE(std::chrono::steady_clock::now() - start, times.busy_grace);
  EXPECT_EQ(busy.EndedBy(), SIGKILL);
}

TEST(EndChildren, GivesABusyProcessMoreTime) {
  const SweepTimes times{
      .grace = milliseconds(1), .busy_grace = milliseconds(400), .limit = hours(1)};
  const Stray busy(/*ignores_sigterm=*/true, /*busy=*/true);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(EndChildren(0, {}, times), IsEmpty());
  EXPECT_GE(std::chrono::steady_clock::now() - start, times.busy_grace);
}

TEST(StraySweep, LeavesChildrenAloneThatWereThereBeforeTheJob) {
  const Stray bystander;
  const InheritedChildren others = InheritedChildren::Find(/*own=*/0);
  Stray stray;
  EXPECT_THAT(Sweep({}, {.grace = milliseconds(1), .limit = hours(1)}, others), IsEmpty());
  EXPECT_EQ(stray.EndedBy(), SIGKILL);
  EXPECT_EQ(::waitpid(bystander.pid(), nullptr, WNOHANG), 0) << "it has ended";
}

TEST(EndChildren, LeavesChildrenAloneThatWereThereBeforeTheJob) {
  const Stray bystander;
  const InheritedChildren others = InheritedChildren::Find(/*own=*/0);
  const Stray stray;
  EXPECT_THAT(EndChildren(0, others, {.grace = milliseconds(1), .limit = hours(1)}), IsEmpty());
  EXPECT_EQ(::waitpid(stray.pid(), nullptr, WNOHANG), -1) << "it was not reaped";
  EXPECT_EQ(::waitpid(bystander.pid(), nullptr, WNOHANG), 0) << "it has ended";
}

TEST(StraySweep, NamesThoseThatAreThereWhenItGivesUp) {
  Stray deaf(/*ignores_sigterm=*/true);
  EXPECT_THAT(Sweep({deaf.pid()}, {.grace = hours(1), .limit = milliseconds(1)}),
              ElementsAre(deaf.pid()));
}

}  // namespace
}  // namespace ddprun::launcher
