#include "base/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace ddprun {
namespace {

// Returns how many threads of this process do not block SIGTERM.
int ThreadsThatHandleIt() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      uint64_t blocked = 0;
      if (word == "SigBlk:" && status >> std::hex >> blocked) {
        count += (blocked >> (SIGTERM - 1) & 1) == 0 ? 1 : 0;
      }
    }
  }
  return count;
}

// Returns whether the condition comes true before the test has failed.
template <typename Condition>
bool Comes(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// The job of a node that is stopped while it joins the others anew does not go on.
TEST(StopSignals, OutweighTheSignalToJoinAnew) {
  const pid_t child = ::fork();
  if (child == 0) {
    NoteStopSignals(Environment());
    const auto comes = [](int sent, int noted) {
      ::kill(::getpid(), sent);
      return Comes([noted] { return NotedStopSignal() == noted; });
    };
    const bool first = comes(kRejoinSignal, kRejoinSignal);
    const bool second = comes(SIGTERM, SIGTERM);
    ::_exit(!first ? 1 : !second ? 2 : !comes(kRejoinSignal, SIGTERM) ? 3 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
}

// A handler's frame on a thread that computes would destroy the heap: see the header.
TEST(StopSignals, AreHandledByOneThreadThatComputesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    NoteStopSignals(Environment());
    NoteStopSignals(Environment());
    const std::thread worker([] { ::pause(); });
    const bool one = Comes([] { return ThreadsThatHandleIt() == 1; });
    sigset_t own;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &own);
    ::kill(::getpid(), SIGTERM);
    const bool noted = Comes([] { return NotedStopSignal() == SIGTERM; });
    ::_exit(!one ? 1 : ::sigismember(&own, SIGTERM) == 0 ? 2 : !noted ? 3 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
}

}  // namespace
}  // namespace ddprun
