#include "trainer/comm/operation_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ddprun::trainer {
namespace {

TEST(OperationQueue, RunsInTheOrderOfSubmissionWhoeverHelps) {
  OperationQueue queue;
  std::vector<int> order;
  std::vector<std::shared_ptr<OperationQueue::Entry>> entries;
  for (int i = 0; i < 100; ++i) {
    entries.push_back(queue.Submit([&order, i]() -> Status {
      order.push_back(i);
      return {};
    }));
  }
  queue.Wait(*entries[60]);
  const Status now = queue.RunNow([&order]() -> Status {
    order.push_back(100);
    return {};
  });
  EXPECT_TRUE(now.ok());
  ASSERT_EQ(order.size(), 101U);
  for (int i = 0; i <= 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(OperationQueue, HandsTheErrorToTheOneWhoWaits) {
  OperationQueue queue;
  const auto bad = queue.Submit([]() -> Status { return SystemError("BROKEN", 5); });
  const auto good = queue.Submit([]() -> Status { return {}; });
  queue.Wait(*good);
  queue.Wait(*bad);
  EXPECT_TRUE(good->status.ok());
  ASSERT_FALSE(bad->status.ok());
  EXPECT_EQ(bad->status.error().what, "BROKEN: Input/output error");
}

TEST(OperationQueue, FinishesWhatHasBegunBeforeItIsDestroyed) {
  auto queue = std::make_unique<OperationQueue>();
  std::atomic<bool> gate = false;
  std::atomic<bool> started = false;
  bool finished = false;
  queue->Submit([&]() -> Status {
    started = true;
    started.notify_all();
    gate.wait(false);
    finished = true;
    return {};
  });
  queue->Submit([]() -> Status { return {}; });
  started.wait(false);
  std::jthread release([&] {
    gate = true;
    gate.notify_all();
  });
  queue.reset();
  EXPECT_TRUE(finished);
}

}  // namespace
}  // namespace ddprun::trainer
