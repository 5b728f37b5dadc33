#include "trainer/comm/node_readers.h"

#include <chrono>
#include <thread>

namespace ddprun::trainer {

namespace {

// Time for ranks that have met for the last operation to copy its result.
constexpr std::chrono::milliseconds kReadingTime{1000};
constexpr std::chrono::microseconds kReadingPoll{20};

}  // namespace

void EndReading(NodeMeeting& node) {
  node.region().control(node.self()).read.store(node.sequence(), std::memory_order_release);
}

bool WaitForReaders(NodeMeeting& node, const std::function<void()>& meanwhile) {
  if (node.region().control(node.self()).read.load(std::memory_order_relaxed) != node.sequence())
    return false;
  const Clock::time_point deadline = Clock::now() + kReadingTime;
  for (int rank = 0; rank < node.size(); ++rank) {
    while (node.region().control(rank).read.load(std::memory_order_acquire) < node.sequence()) {
      if (node.cancelled() || Clock::now() > deadline) return false;
      meanwhile();
      std::this_thread::sleep_for(kReadingPoll);
    }
  }
  return true;
}

}  // namespace ddprun::trainer
