#include "trainer/comm/mailbox.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "tests/trainer/comm/rank_threads.h"

namespace ddprun::trainer {
namespace {

Clock::time_point Soon() {
  return Clock::now() + std::chrono::seconds(60);
}

std::unique_ptr<Mailbox> MailboxOf(SharedRegion& region, int rank, int size) {
  const NodePlacement placement(rank, std::vector<int>(static_cast<size_t>(size), 0));
  return std::make_unique<Mailbox>(region, placement, GroupWire(), Mailbox::Options());
}

void WithMailboxes(int size, const std::function<void(Mailbox& mailbox, int rank)>& body) {
  auto file = SharedRegion::CreateFile();
  ASSERT_TRUE(file.has_value());
  auto region = SharedRegion::Map(*file, size);
  ASSERT_TRUE(region.has_value());
  std::vector<std::unique_ptr<Mailbox>> mailboxes;
  for (int rank = 0; rank < size; ++rank) {
    mailboxes.push_back(MailboxOf(**region, rank, size));
  }
  RunRanks(size, [&](int rank) { body(*mailboxes[static_cast<size_t>(rank)], rank); });
}

std::vector<int> Numbers(int first, size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

size_t Bytes(const std::vector<int>& numbers) {
  return numbers.size() * sizeof(int);
}

TEST(Mailbox, SendsDoNotWaitForTheirReceivers) {
  // Both send first; with sends that wait this would never end.
  WithMailboxes(2, [](Mailbox& mailbox, int rank) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{5000}, size_t{3'000'001}}) {
      const std::vector<int> sent = Numbers(rank * 7, count);
      std::vector<int> received(count, -1);
      const auto send = mailbox.Send(sent.data(), Bytes(sent), 1 - rank, 3);
      const auto receive = mailbox.Receive(received.data(), Bytes(received), 1 - rank, 3);
      ASSERT_TRUE(mailbox.Wait(*receive, Soon()).ok());
      ASSERT_TRUE(mailbox.Wait(*send, Soon()).ok());
      EXPECT_EQ(received, Numbers((1 - rank) * 7, count));
    }
  });
}

TEST(Mailbox, KeepsTheOrderOfOneTagAndLetsTagsPassEachOther) {
  WithMailboxes(2, [](Mailbox& mailbox, int rank) {
    constexpr int kMessages = 100;  // more than a channel begins with
    if (rank == 0) {
      std::vector<Mailbox::Handle> sends;
      for (int i = 0; i < kMessages; ++i) {
        for (const int tag : {1, 2}) {
          const int value = i * 10 + tag;
          sends.push_back(mailbox.Send(&value, sizeof value, 1, tag));
        }
      }
      for (const auto& send : sends) EXPECT_TRUE(mailbox.Wait(*send, Soon()).ok());
      return;
    }
    for (const int tag : {2, 1}) {
      for (int i = 0; i < kMessages; ++i) {
        int value = -1;
        const auto receive = mailbox.Receive(&value, sizeof value, 0, tag);
        ASSERT_TRUE(mailbox.Wait(*receive, Soon()).ok());
        ASSERT_EQ(value, i * 10 + tag);
      }
    }
  });
}

// Each rank sends more than a channel holds to the next rank, and then waits for a rank that does
// not receive yet. If Send() waited for room, all would wait for ever.
TEST(Mailbox, SendsWithoutLimitAroundARing) {
  constexpr int kSize = 3;
  constexpr int kMessages = 500;
  WithMailboxes(kSize, [](Mailbox& mailbox, int rank) {
    const int next = (rank + 1) % kSize;
    const int before = (rank + kSize - 1) % kSize;
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(mailbox.Wait(*mailbox.Send(&i, sizeof i, next, 1), Soon()).ok());
    }
    int word = rank;
    ASSERT_TRUE(mailbox.Wait(*mailbox.Send(&word, sizeof word, before, 2), Soon()).ok());
    ASSERT_TRUE(mailbox.Wait(*mailbox.Receive(&word, sizeof word, next, 2), Soon()).ok());
    EXPECT_EQ(word, next);
    for (int i = 0; i < kMessages; ++i) {
      int value = -1;
      ASSERT_TRUE(mailbox.Wait(*mailbox.Receive(&value, sizeof value, before, 1), Soon()).ok());
      ASSERT_EQ(value, i);
    }
    // The queue's pages are used again.
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(mailbox.Wait(*mailbox.Send(&i, sizeof i, rank, 3), Soon()).ok());
      int value = -1;
      ASSERT_TRUE(mailbox.Wait(*mailbox.Receive(&value, sizeof value, rank, 3), Soon()).ok());
      ASSERT_EQ(value, i);
    }
  });
}

TEST(Mailbox, KeepsTheMemoryOfAReceiveThatNobodyWaitsFor) {
  WithMailboxes(1, [](Mailbox& mailbox, int) {
    auto room = std::make_shared<std::vector<int>>(1000, -1);
    const std::weak_ptr<std::vector<int>> watch = room;
    mailbox.Receive(room->data(), Bytes(*room), 0, 4, room);
    room.reset();
    EXPECT_FALSE(watch.expired());
    for (int first = 0; first < 2; ++first) {
      const std::vector<int> sent = Numbers(first, 1000);
      ASSERT_TRUE(mailbox.Wait(*mailbox.Send(sent.data(), Bytes(sent), 0, 4), Soon()).ok());
    }
    std::vector<int> received(1000);
    const auto second = mailbox.Receive(received.data(), Bytes(received), 0, 4);
    ASSERT_TRUE(mailbox.Wait(*second, Soon()).ok());
    EXPECT_EQ(received, Numbers(1, 1000)) << "the first message is that of the first receive";
    EXPECT_TRUE(watch.expired());
  });
}

TEST(Mailbox, ReceivesFromAnyRankAndSaysFromWhich) {
  WithMailboxes(4, [](Mailbox& mailbox, int rank) {
    if (rank != 0) {
      const auto send = mailbox.Send(&rank, sizeof rank, 0, 5);
      EXPECT_TRUE(mailbox.Wait(*send, Soon()).ok());
      return;
    }
    std::vector<int> senders;
    for (int i = 1; i < 4; ++i) {
      int value = -1;
      const auto receive = mailbox.Receive(&value, sizeof value, Mailbox::kAnyRank, 5);
      ASSERT_TRUE(mailbox.Wait(*receive, Soon()).ok());
      EXPECT_EQ(receive->peer, value);
      senders.push_back(value);
    }
    std::sort(senders.begin(), senders.end());
    EXPECT_EQ(senders, (std::vector<int>{1, 2, 3}));
  });
}

// Every rank sends to every rank, itself included, in an order of its own, and receives in another.
TEST(Mailbox, DeliversARandomExchangeWhole) {
  constexpr int kSize = 4;
  constexpr int kEach = 40;
  WithMailboxes(kSize, [](Mailbox& mailbox, int rank) {
    struct Planned {
      int peer;
      int tag;
    };
    std::vector<Planned> plan;
    for (int peer = 0; peer < kSize; ++peer) {
      for (int tag = 0; tag < kEach; ++tag) plan.push_back({peer, tag});
    }
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    const auto length = [](int from, int to, int tag) {
      return static_cast<size_t>((from * 31 + to * 17 + tag * 101) % 3000);
    };
    std::vector<Mailbox::Handle> transfers;
    std::shuffle(plan.begin(), plan.end(), random);
    for (const auto& [peer, tag] : plan) {
      const std::vector<int> sent = Numbers(rank * 1000 + tag, length(rank, peer, tag));
      transfers.push_back(mailbox.Send(sent.data(), Bytes(sent), peer, tag));
    }
    std::shuffle(plan.begin(), plan.end(), random);
    std::vector<std::vector<int>> received;
    for (const auto& [peer, tag] : plan) {
      received.emplace_back(length(peer, rank, tag), -1);
      transfers.push_back(
          mailbox.Receive(received.back().data(), Bytes(received.back()), peer, tag));
    }
    std::shuffle(transfers.begin(), transfers.end(), random);
    for (const auto& transfer : transfers) ASSERT_TRUE(mailbox.Wait(*transfer, Soon()).ok());
    for (size_t i = 0; i < plan.size(); ++i) {
      const auto& [peer, tag] = plan[i];
      ASSERT_EQ(received[i], Numbers(peer * 1000 + tag, received[i].size()));
    }
  });
}

// Sends messages from rank 0 to rank 1, each after the one before has been received. Returns the
// bytes of the shared memory at the end.
int64_t SendInTurn(size_t heap_bytes, const std::vector<size_t>& sizes) {
  const auto file = SharedRegion::CreateFile();
  EXPECT_TRUE(file.has_value());
  const auto region = SharedRegion::Map(*file, 2, 0, heap_bytes);
  EXPECT_TRUE(region.has_value());
  const auto sender = MailboxOf(**region, 0, 2);
  const auto receiver = MailboxOf(**region, 1, 2);
  for (const size_t size : sizes) {
    const std::vector<std::byte> sent(size, std::byte(size % 251));
    std::vector<std::byte> received(size);
    EXPECT_TRUE(sender->Wait(*sender->Send(sent.data(), size, 1, 0), Soon()).ok()) << size;
    const auto receive = receiver->Receive(received.data(), size, 0, 0);
    EXPECT_TRUE(receiver->Wait(*receive, Soon()).ok());
    EXPECT_TRUE(received == sent) << size;
  }
  struct stat status = {};
  EXPECT_EQ(fstat(file->get(), &status), 0);
  return status.st_blocks * 512;
}

TEST(Mailbox, GivesMemoryBackWhenMessagesGrow) {
  constexpr size_t kMiB = 1 << 20;
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 60; ++i) sizes.push_back(kMiB + i * kMiB / 8);  // 281 MiB
  EXPECT_LT(SendInTurn(size_t{1} << 30, sizes), static_cast<int64_t>(96 * kMiB));
  SendInTurn(16 * kMiB, sizes);  // the heap has place for the largest message, not for two
}

TEST(Mailbox, DeliversWhatAnEndedRankHasSent) {
  auto file = SharedRegion::CreateFile();
  ASSERT_TRUE(file.has_value());
  auto region = SharedRegion::Map(*file, 2);
  ASSERT_TRUE(region.has_value());
  const std::vector<int> sent = Numbers(5, 100'000);
  {
    const auto sender = MailboxOf(**region, 0, 2);
    EXPECT_TRUE(sender->Wait(*sender->Send(sent.data(), Bytes(sent), 1, 0), Soon()).ok());
  }
  const auto receiver = MailboxOf(**region, 1, 2);
  std::vector<int> received(sent.size(), -1);
  const auto receive = receiver->Receive(received.data(), Bytes(received), 0, 0);
  EXPECT_TRUE(receiver->Wait(*receive, Soon()).ok());
  EXPECT_EQ(received, sent);
}

TEST(Mailbox, SaysWhichMessageDidNotCome) {
  WithMailboxes(2, [](Mailbox& mailbox, int rank) {
    if (rank == 1) return;
    int value = 0;
    const auto receive = mailbox.Receive(&value, sizeof value, 1, 9);
    EXPECT_FALSE(mailbox.Test(*receive));
    const Status status = mailbox.Wait(*receive, Clock::now() + std::chrono::milliseconds(20));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().what, "The message from rank 1 (4 bytes, tag 9) did not come.");
  });
}

TEST(Mailbox, RefusesAMessageOfAnotherSize) {
  WithMailboxes(2, [](Mailbox& mailbox, int rank) {
    const std::vector<int> numbers = Numbers(0, 3);
    if (rank == 0) {
      EXPECT_TRUE(mailbox.Wait(*mailbox.Send(numbers.data(), 12, 1, 0), Soon()).ok());
      return;
    }
    int value = 0;
    const Status status = mailbox.Wait(*mailbox.Receive(&value, sizeof value, 0, 0), Soon());
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().what, "Rank 0 sent 12 bytes with tag 0; rank 1 expected 4.");
  });
}

// A tensor of Python's is freed with Python's lock, whose holder may call the mailbox.
TEST(Mailbox, MayBeCalledWhileAnotherThreadFreesWhatAReceiveHeld) {
  WithMailboxes(1, [](Mailbox& mailbox, int rank) {
    std::mutex python;
    std::atomic<bool> freeing = false;
    const auto tensor = [&](const void*) {
      freeing = true;
      freeing.notify_all();
      const std::lock_guard lock(python);
    };
    int dropped = 0;
    int last = 0;
    mailbox.Receive(&dropped, sizeof dropped, rank, 1,
                    std::shared_ptr<const void>(nullptr, tensor));
    const auto receive = mailbox.Receive(&last, sizeof last, rank, 2);
    std::jthread waiter([&] { EXPECT_TRUE(mailbox.Wait(*receive, Soon()).ok()); });
    {
      const std::lock_guard lock(python);
      const int word = 7;
      EXPECT_TRUE(mailbox.Send(&word, sizeof word, rank, 1)->done);
      freeing.wait(false);
      EXPECT_FALSE(mailbox.Test(*receive));
    }
    EXPECT_TRUE(mailbox.Send(&last, sizeof last, rank, 2)->done);
    waiter.join();
    EXPECT_EQ(dropped, 7);
  });
}

}  // namespace
}  // namespace ddprun::trainer
