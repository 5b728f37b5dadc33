#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/hang/worker_activity.h"

namespace ddprun::launcher {
namespace {

class Child {
 public:
  template <typename Body>
  explicit Child(const Body& body) : pid_(fork()) {
    if (pid_ != 0) return;
    body();
    _exit(0);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(ProcessPlace, NamesTheSystemCallAndWhatItIsAbout) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Child child([&] {
    close(ends[1]);
    char byte = 0;
    while (read(ends[0], &byte, 1) != 0) {
    }
  });
  ProcessPlace place = ReadProcessPlace(child.pid());
  while (place.state != 'S' || place.where.find("read of pipe:[") == std::string::npos) {
    place = ReadProcessPlace(child.pid());  // ends with the test's timeout if it never comes
  }
  EXPECT_TRUE(place.system_call.has_value());
}

TEST(ProcessPlace, SeesThatAProcessIsStopped) {
  const Child child([] { raise(SIGSTOP); });
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED | WNOWAIT), 0);
  EXPECT_EQ(ReadProcessPlace(child.pid()).state, 'T');
}

TEST(ProcessPlace, KnowsNothingOfAProcessThatIsGone) {
  pid_t pid = 0;
  {
    const Child child([] {});
    pid = child.pid();
  }
  EXPECT_EQ(ReadProcessPlace(pid).state, '?');
  const std::vector<LiveWorker> workers = {{.rank = 0, .pid = pid}};
  EXPECT_TRUE(CpuTimes(workers).empty());
}

// The worker itself only waits; the process that computes is its child.
TEST(CpuTimes, IncludeDescendants) {
  const Child child([] {
    setsid();
    if (fork() == 0) {
      for (;;) getppid();
    }
    pause();
  });
  const std::vector<LiveWorker> workers = {{.rank = 3, .pid = child.pid()}};
  while (CpuTimes(workers)[child.pid()] < std::chrono::milliseconds(20)) {
  }
  kill(-child.pid(), SIGKILL);
}

}  // namespace
}  // namespace ddprun::launcher
