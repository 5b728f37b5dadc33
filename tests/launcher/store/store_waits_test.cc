#include "launcher/store/store_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/store/tcp_store.h"
#include "tests/rendezvous/loop_thread.h"

namespace ddprun::launcher {
namespace {

using rendezvous::ParkedWait;
using rendezvous::SocketEntry;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::MatchesRegex;

const auto kStart = std::chrono::steady_clock::time_point(std::chrono::hours(1));

ParkedWait Parked(const std::string& peer, std::vector<std::string> keys) {
  ParkedWait wait;
  wait.peer = peer;
  wait.own = "127.0.0.1:29500";
  wait.keys = std::move(keys);
  wait.since = kStart;
  return wait;
}

TEST(StoreWaits, NamesTheRankWhoseProcessHoldsTheOtherEnd) {
  const std::vector parked = {Parked("127.0.0.1:4001", {"/default_pg/0//cuda//0"})};
  const std::vector<SocketEntry> sockets = {{"127.0.0.1:29500", "127.0.0.1:4001", 8},
                                            {"127.0.0.1:4001", "127.0.0.1:29500", 7}};
  const auto waits = AttributeWaits(parked, sockets, {{7, {3, 812}}}, kStart + seconds(40));
  ASSERT_EQ(waits.size(), 1);
  EXPECT_EQ(Describe(waits[0]),
            "rank 3 (pid 812) has waited 40 s for /default_pg/0//cuda//0, which nobody has set");
}

TEST(StoreWaits, NamesTheAddressOfAProcessElsewhere) {
  const std::vector parked = {Parked("10.0.0.7:4001", {"/a", "/b", "/c", "/d", "/e"})};
  const auto waits = AttributeWaits(parked, {}, {}, kStart + milliseconds(2500));
  EXPECT_EQ(Describe(waits[0]),
            "10.0.0.7:4001 has waited 2.5 s for /a, /b, /c and 2 more keys, which nobody has set");
}

TEST(StoreWaits, SaysThatABarrierIsWaitedAt) {
  std::vector parked = {Parked("10.0.0.7:4001", {"/b"})};
  parked[0].barrier = true;
  EXPECT_EQ(Describe(AttributeWaits(parked, {}, {}, kStart + seconds(12))[0]),
            "10.0.0.7:4001 has waited 12 s for the others at barrier /b");
}

TEST(StoreWaits, CountsSessionsAndDescendantsOfAWorkerAsTheWorker) {
  const std::vector<ProcessEntry> processes = {
      {.pid = 30, .parent = 20, .session = 30},  // listed before its parent
      {.pid = 20, .parent = 10, .session = 20},
      {.pid = 40, .parent = 1, .session = 10},
      {.pid = 50, .parent = 1, .session = 50},
  };
  const std::vector<LiveWorker> workers = {{.rank = 0, .pid = 10}, {.rank = 1, .pid = 11}};
  std::vector<std::pair<int, pid_t>> found;
  for (const auto& [rank, pid] : ProcessesOfWorkers(processes, workers)) {
    found.emplace_back(rank, pid);
  }
  using Pair = std::pair<int, pid_t>;
  EXPECT_THAT(found, testing::UnorderedElementsAre(Pair(0, 10), Pair(1, 11), Pair(0, 20),
                                                   Pair(0, 30), Pair(0, 40)));
}

TEST(StoreWaits, ATerminalObeysNothingInAKey) {
  const StoreWait wait{.status = {.peer = "10.0.0.7:4001",
                                  .keys = {"/a\033[2Jb\r", "/c\nforged line"},
                                  .num_keys = 2}};
  EXPECT_EQ(Describe(wait),
            "10.0.0.7:4001 has waited 0.0 s for /ab?, /c?forged line, which nobody has set");
}

// A worker of the agent: a child process that waits in the store.
class WaitingChild {
 public:
  explicit WaitingChild(const rendezvous::HostPort& endpoint) : pid_(fork()) {
    if (pid_ != 0) return;
    const auto deadline = rendezvous::DeadlineAfter(seconds(60));
    auto store = rendezvous::TcpStore::Connect(endpoint, deadline);
    (void)(*store)->Get("never", deadline);
    _exit(0);
  }
  ~WaitingChild() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST(StoreWaits, FindsThePidOfARealProcessThatWaits) {
  rendezvous::ServedStore served;
  const WaitingChild child(served.endpoint());
  const std::vector<LiveWorker> workers = {{.rank = 5, .pid = child.pid()}};
  std::vector<StoreWait> waits;
  while (waits.empty()) {
    waits = served.loop().Do([&] { return FindWaits(served.server(), workers); });
  }
  EXPECT_THAT(Describe(waits[0]),
              MatchesRegex("rank 5 \\(pid " + std::to_string(child.pid()) +
                           "\\) has waited .* s for /never, which nobody has set"));
}

}  // namespace
}  // namespace ddprun::launcher
