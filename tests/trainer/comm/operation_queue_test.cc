#include "trainer/comm/operation_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/failure.h"

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

// As a future's callback does that starts a collective and waits for it.
TEST(OperationQueue, LetsACallbackWaitForLaterOperations) {
  OperationQueue queue;
  std::atomic<bool> gate = false;
  std::atomic<int> order = 0;
  const auto first = queue.Submit([&]() -> Status {
    gate.wait(false);
    return {};
  });
  const auto second = queue.Submit([&]() -> Status {
    EXPECT_EQ(order++, 0);
    return {};
  });
  std::atomic<bool> called = false;
  queue.OnDone(*first, [&](const Status&) {
    const Status now = queue.RunNow([&]() -> Status {
      EXPECT_EQ(order++, 1);
      return {};
    });
    EXPECT_TRUE(now.ok());
    queue.Wait(*queue.Submit([]() -> Status { return {}; }));
    called = true;
    called.notify_all();
  });
  gate = true;
  gate.notify_all();
  queue.Wait(*second);
  called.wait(false);
  EXPECT_EQ(order, 2);
}

TEST(OperationQueue, MakesWhatAnOperationThrowsItsError) {
  OperationQueue queue;
  const auto failure =
      queue.Submit([]() -> Status { throw Failure(SystemError("making room", 28)); });
  const auto other = queue.Submit([]() -> Status { throw std::runtime_error("out of luck"); });
  queue.Wait(*other);
  ASSERT_FALSE(other->status.ok());
  EXPECT_EQ(other->status.error().what, "out of luck");
  ASSERT_FALSE(failure->status.ok());
  EXPECT_EQ(failure->status.error().what, "making room: No space left on device");
  EXPECT_FALSE(queue.RunNow([]() -> Status { throw std::runtime_error("again"); }).ok());
  EXPECT_TRUE(queue.RunNow([]() -> Status { return {}; }).ok());
}

TEST(OperationQueue, EndsWhatHasNotBegunWithAnError) {
  auto queue = std::make_unique<OperationQueue>();
  std::atomic<bool> gate = false;
  queue->Submit([&]() -> Status {
    gate.wait(false);
    return {};
  });
  std::shared_ptr<OperationQueue::Entry> last;
  for (int i = 0; i < 100; ++i) last = queue->Submit([]() -> Status { return {}; });
  const auto calls = std::make_shared<std::atomic<int>>(0);
  queue->OnDone(*last, [calls](const Status&) {
    ++*calls;
    calls->notify_all();
  });
  std::jthread release([&] {
    gate = true;
    gate.notify_all();
  });
  queue.reset();
  EXPECT_TRUE(last->done) << "whoever has its future would wait for ever";
  // If the background thread was faster and has run it, that thread calls, after it is done.
  calls->wait(0);
  EXPECT_EQ(*calls, 1);
}

// A tensor of Python's is freed with Python's lock, which the thread may hold that destroys the
// queue. If the destructor waited for that, this would never end.
TEST(OperationQueue, IsDestroyedWhileAnotherThreadFreesWhatAnOperationHeld) {
  std::mutex python;
  std::atomic<bool> freeing = false;
  const auto tensor = [&](int*) {
    freeing = true;
    freeing.notify_all();
    const std::lock_guard lock(python);
  };
  auto queue = std::make_unique<OperationQueue>();
  std::unique_lock lock(python);
  const auto entry =
      queue->Submit([held = std::shared_ptr<int>(nullptr, tensor)]() -> Status { return {}; });
  freeing.wait(false);
  queue.reset();
  lock.unlock();
  while (!entry->done) std::this_thread::yield();
  EXPECT_TRUE(entry->status.ok());
}

TEST(OperationQueue, MayBeDestroyedByACallback) {
  auto queue = std::make_shared<OperationQueue>();
  OperationQueue& running = *queue;
  std::atomic<bool> gate = false;
  std::atomic<bool> destroyed = false;
  const auto entry = running.Submit([&]() -> Status {
    gate.wait(false);
    return {};
  });
  running.OnDone(*entry, [&, last_user = std::move(queue)](const Status&) mutable {
    last_user.reset();
    destroyed = true;
    destroyed.notify_all();
  });
  gate = true;
  gate.notify_all();
  destroyed.wait(false);
  EXPECT_TRUE(entry->status.ok());
}

// Settle() is for good, so each test of it needs a process of its own.
class OperationQueueDeathTest : public testing::Test {
 protected:
  OperationQueueDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(OperationQueueDeathTest, SettlingWaitsForOperationsAndTheirCalls) {
  EXPECT_EXIT(
      {
        OperationQueue queue;
        std::atomic<bool> called = false;
        const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
        const auto entry = queue.Submit([&]() -> Status {
          pause();
          return {};
        });
        queue.OnDone(*entry, [&](const Status&) {
          pause();
          called = true;
        });
        OperationQueue::Settle(std::chrono::seconds(60));
        std::_Exit(called ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(OperationQueueDeathTest, AnOperationThatOutlivesItIsNeitherFreedNorFollowedByItsCall) {
  EXPECT_EXIT(
      {
        struct Noted {
          ~Noted() { std::_Exit(2); }
        };
        auto& queue = *new OperationQueue;
        std::atomic<bool> begun = false;
        std::atomic<bool> go = false;
        std::atomic<bool> ended = false;
        const auto entry = queue.Submit([&, held = std::make_shared<Noted>()]() -> Status {
          begun = true;
          while (!go) std::this_thread::yield();
          ended = true;
          return {};
        });
        queue.OnDone(*entry, [](const Status&) { std::_Exit(3); });
        while (!begun) std::this_thread::yield();
        OperationQueue::Settle(std::chrono::milliseconds(1));
        go = true;
        while (!ended) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::_Exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(OperationQueueDeathTest, LaterOperationsRunOnTheThreadThatSubmitsThem) {
  EXPECT_EXIT(
      {
        OperationQueue queue;
        OperationQueue::Settle(std::chrono::milliseconds(1));
        std::thread::id ran;
        queue.Submit([&]() -> Status {
          ran = std::this_thread::get_id();
          return {};
        });
        std::_Exit(ran == std::this_thread::get_id() ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace ddprun::trainer
