// What every transport promises. ctest runs it over TCP and over UCX.
#include "trainer/comm/net/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "tests/trainer/comm/rank_threads.h"
#include "tests/trainer/comm/transports.h"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<unsigned char>;
using Handle = Transport::Handle;
using std::chrono::steady_clock;
using testing::HasSubstr;

// Bytes that tell which message they are of.
Bytes Pattern(size_t count, unsigned seed) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + i / 251 + seed);
  return bytes;
}

class TransportTest : public testing::Test {
 protected:
  explicit TransportTest(size_t ranks = 2) : ranks_(ConnectedTransports(ranks)) {}

  Transport& At(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  // Progresses all ranks until `done`; returns false after 20 s.
  bool Until(const std::function<bool()>& done) {
    const auto end = steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (steady_clock::now() > end) return false;
      for (const auto& rank : ranks_) {
        if (rank) rank->Progress();
      }
    }
    return true;
  }
  bool Until(const Handle& request) {
    return Until([&] { return request->done.load(); });
  }
  // Waits as a rank's thread does; returns false after 20 s.
  bool WaitFor(int rank, const Handle& request) {
    const std::atomic<bool> never = false;
    const Transport::Limits limits{steady_clock::now() + std::chrono::seconds(20), never};
    while (!request->done && steady_clock::now() < limits.deadline) {
      const uint64_t seen = At(rank).completions();
      if (!request->done) At(rank).WaitForCompletion(seen, limits);
    }
    return request->done;
  }

  std::vector<std::shared_ptr<Transport>> ranks_;
};

TEST_F(TransportTest, BringsMessagesOfATagInOrder) {
  const std::vector<size_t> sizes = {0, 1, 15, 16, 4096, 8191, 8192, 8193, 65536, 3'000'001};
  for (const bool receiver_first : {true, false}) {
    std::vector<Bytes> sent;
    std::vector<Bytes> received;
    std::vector<Handle> requests;
    const auto send = [&] {
      for (const Bytes& bytes : sent) {
        requests.push_back(At(0).Send(1, 7, bytes.data(), bytes.size()));
      }
    };
    for (const size_t size : sizes) {
      sent.push_back(Pattern(size, static_cast<unsigned>(size)));
      received.emplace_back(size + 1);  // more room than the message has bytes
    }
    if (!receiver_first) {
      send();
      Until([&] { return requests.back()->done.load(); });
    }
    std::vector<Handle> receives;
    for (Bytes& bytes : received) {
      receives.push_back(At(1).Receive(0, 7, bytes.data(), bytes.size()));
    }
    if (receiver_first) send();
    for (size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_TRUE(Until(receives[i])) << sizes[i];
      ASSERT_TRUE(receives[i]->status.ok()) << receives[i]->status.error().what;
      EXPECT_EQ(receives[i]->bytes, sizes[i]);
      received[i].resize(sizes[i]);
      EXPECT_TRUE(received[i] == sent[i]) << sizes[i];
    }
  }
}

TEST_F(TransportTest, KeepsMessagesThatComeBeforeTheirReceives) {
  std::vector<Bytes> sent;
  std::vector<Handle> sends;
  for (unsigned tag = 0; tag < 50; ++tag) sent.push_back(Pattern(tag * 977, tag));
  for (unsigned tag = 0; tag < 50; ++tag) {
    sends.push_back(At(0).Send(1, tag, sent[tag].data(), sent[tag].size()));
  }
  for (unsigned tag = 50; tag-- > 0;) {
    Bytes received(sent[tag].size());
    ASSERT_TRUE(Until(At(1).Receive(0, tag, received.data(), received.size())));
    EXPECT_TRUE(received == sent[tag]) << tag;
  }
  for (const Handle& send : sends) EXPECT_TRUE(send->done);
}

TEST_F(TransportTest, FindsMessagesByAPartOfTheirTag) {
  constexpr uint64_t kMask = 0xff00;
  const Bytes first = Pattern(10, 1);
  const Bytes second = Pattern(70'000, 2);
  EXPECT_EQ(At(1).Find(0x100, kMask), std::nullopt);
  At(0).Send(1, 0x205, first.data(), first.size());
  At(0).Send(1, 0x1aa, first.data(), first.size());
  const Handle last = At(0).Send(1, 0x1bb, second.data(), second.size());
  for (const auto& [tag, bytes] : std::map<uint64_t, Bytes>{{0x1aa, first}, {0x1bb, second}}) {
    std::optional<Transport::Arrived> found;
    ASSERT_TRUE(Until([&] { return found || (found = At(1).Find(0x100, kMask)); }));
    EXPECT_EQ(found->tag, tag);
    ASSERT_EQ(found->bytes, bytes.size());
    Bytes received(found->bytes);
    const Handle take = At(1).Take(*found, received.data());
    ASSERT_TRUE(Until(take));
    EXPECT_TRUE(received == bytes);
    EXPECT_EQ(take->bytes, bytes.size());
  }
  EXPECT_EQ(At(1).Find(0x100, kMask), std::nullopt);
  Bytes received(10);
  ASSERT_TRUE(Until(At(1).Receive(0, 0x205, received.data(), received.size())));
  EXPECT_TRUE(received == first);
  EXPECT_TRUE(Until(last));
}

TEST_F(TransportTest, AMessageThatIsTooLongEndsOnlyItsReceive) {
  const Bytes bytes = Pattern(100'000, 3);
  Bytes small(99'999);
  Bytes right(100'000);
  for (const bool receiver_first : {true, false}) {
    Handle first;
    if (receiver_first) first = At(1).Receive(0, 1, small.data(), small.size());
    At(0).Send(1, 1, bytes.data(), bytes.size());
    const Handle sent = At(0).Send(1, 1, bytes.data(), bytes.size());
    ASSERT_TRUE(Until(sent));
    if (!receiver_first) first = At(1).Receive(0, 1, small.data(), small.size());
    ASSERT_TRUE(Until(first));
    ASSERT_FALSE(first->status.ok());
    EXPECT_EQ(first->status.error().title, "MISMATCHED MESSAGE");
    EXPECT_THAT(first->status.error().what, HasSubstr("from rank 0 is longer than rank 1"));
    const Handle second = At(1).Receive(0, 1, right.data(), right.size());
    ASSERT_TRUE(Until(second));
    EXPECT_TRUE(second->status.ok());
    EXPECT_TRUE(right == bytes);
  }
}

TEST_F(TransportTest, ACancelledReceiveIsNotTouched) {
  const Bytes bytes = Pattern(4'000'000, 4);
  Bytes place(bytes.size());
  const Handle never = At(1).Receive(0, 1, place.data(), place.size());
  At(1).Cancel(never);
  EXPECT_TRUE(never->done);
  EXPECT_FALSE(never->status.ok());
  At(1).Cancel(never);  // does nothing
  // While its message arrives. A part of it may have come.
  const Handle half = At(1).Receive(0, 2, place.data(), place.size());
  const Handle sent = At(0).Send(1, 2, bytes.data(), bytes.size());
  for (int i = 0; i < 3; ++i) {
    At(0).Progress();
    At(1).Progress();
  }
  At(1).Cancel(half);
  EXPECT_TRUE(half->done);
  std::fill(place.begin(), place.end(), 0);
  ASSERT_TRUE(Until(sent));
  const Handle next = At(0).Send(1, 3, bytes.data(), bytes.size());
  Bytes received(bytes.size());
  ASSERT_TRUE(Until(At(1).Receive(0, 3, received.data(), received.size())));
  EXPECT_TRUE(received == bytes);
  EXPECT_EQ(std::accumulate(place.begin(), place.end(), 0L), 0);
  EXPECT_TRUE(Until(next));
}

TEST_F(TransportTest, BothSendMuchAtOnce) {
  constexpr int kMessages = 20;
  const std::array<Bytes, 2> bytes = {Pattern(1'000'000, 5), Pattern(1'000'000, 6)};
  std::vector<Handle> requests;
  for (const int rank : {0, 1}) {
    for (int i = 0; i < kMessages; ++i) {
      const Bytes& own = bytes[static_cast<size_t>(rank)];
      requests.push_back(At(rank).Send(1 - rank, 1, own.data(), own.size()));
    }
  }
  std::vector<Bytes> received;
  for (int i = 0; i < 2 * kMessages; ++i) received.emplace_back(1'000'000);
  for (int i = 0; i < 2 * kMessages; ++i) {
    requests.push_back(At(i % 2).Receive(1 - i % 2, 1, received[static_cast<size_t>(i)].data(),
                                         received[static_cast<size_t>(i)].size()));
  }
  for (const Handle& request : requests) ASSERT_TRUE(Until(request));
  for (size_t i = 0; i < received.size(); ++i) EXPECT_TRUE(received[i] == bytes[1 - i % 2]) << i;
}

TEST_F(TransportTest, ASendOwnsItsMemoryUntilItIsDone) {
  auto bytes = std::make_shared<Bytes>(Pattern(1'000'000, 7));
  const std::weak_ptr<Bytes> watched = bytes;
  Bytes received(bytes->size());
  const Handle sent = At(0).Send(1, 1, bytes->data(), bytes->size(), bytes);
  bytes.reset();
  ASSERT_TRUE(Until(At(1).Receive(0, 1, received.data(), received.size())));
  EXPECT_TRUE(received == Pattern(1'000'000, 7));
  ASSERT_TRUE(Until(sent));
  EXPECT_TRUE(watched.expired());
}

TEST_F(TransportTest, TheLastMessagesOfARankThatEndsArrive) {
  const Bytes bytes = Pattern(300'000, 8);
  Bytes received(bytes.size());
  unsigned char byte = 1;
  // Both have sent before, so that each has connections to the other.
  for (const int rank : {0, 1}) {
    At(rank).Send(1 - rank, 1, &byte, 1);
    ASSERT_TRUE(Until(At(1 - rank).Receive(rank, 1, &byte, 1)));
  }
  At(0).Send(1, 2, bytes.data(), bytes.size());
  const Handle last = At(0).Send(1, 2, bytes.data(), bytes.size());
  std::jthread end([&] { ranks_[0].reset(); });  // it waits until the kernel has the messages
  for (int i = 0; i < 2; ++i) {
    const Handle receive = At(1).Receive(0, 2, received.data(), received.size());
    ASSERT_TRUE(WaitFor(1, receive));
    ASSERT_TRUE(receive->status.ok()) << receive->status.error().what;
    EXPECT_TRUE(received == bytes);
  }
  const Handle more = At(1).Receive(0, 2, received.data(), received.size());
  ASSERT_TRUE(WaitFor(1, more));
  ASSERT_FALSE(more->status.ok());
  EXPECT_EQ(more->status.error().title, "CONNECTION TO A RANK LOST");
  EXPECT_THAT(more->status.error().what, HasSubstr("Receiving from rank 0 failed: "));
}

// A rank that computes does not read.
TEST_F(TransportTest, ARankMayLetItsPeerWait) {
  const Bytes bytes = Pattern(64'000'000, 10);  // more than the kernel takes
  const Handle sent = At(0).Send(1, 1, bytes.data(), bytes.size());
  unsigned char first = 0;
  At(0).Send(1, 2, &first, 1);
  At(1).Progress();  // so that there is a connection
  const auto end = steady_clock::now() + std::chrono::seconds(1);
  while (steady_clock::now() < end) {
    At(0).Progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_FALSE(sent->done);
  Bytes received(bytes.size());
  const Handle receive = At(1).Receive(0, 1, received.data(), received.size());
  ASSERT_TRUE(Until(receive));
  ASSERT_TRUE(receive->status.ok()) << receive->status.error().what;
  EXPECT_TRUE(received == bytes);
  EXPECT_TRUE(Until(sent));
}

// One thread waits for a message that comes last, and another one sends meanwhile.
TEST_F(TransportTest, AThreadSendsWhileAnotherOneWaits) {
  const Bytes bytes = Pattern(20'000'000, 11);
  unsigned char last = 0;
  const Handle awaited = At(0).Receive(1, 9, &last, 1);
  std::jthread waits([&] { EXPECT_TRUE(WaitFor(0, awaited)); });
  std::jthread peer([&] {
    Bytes received(bytes.size());
    for (unsigned char i = 1; i <= 5; ++i) {
      EXPECT_TRUE(WaitFor(1, At(1).Receive(0, 1, received.data(), received.size())));
      EXPECT_TRUE(received == bytes);
    }
    const unsigned char one = 1;
    EXPECT_TRUE(WaitFor(1, At(1).Send(0, 9, &one, 1)));
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(WaitFor(0, At(0).Send(1, 1, bytes.data(), bytes.size())));
  }
  waits.join();
  EXPECT_EQ(last, 1);
}

TEST_F(TransportTest, AbortEndsAllRequests) {
  const Bytes bytes = Pattern(30'000'000, 9);  // more than the kernel takes
  Bytes received(10);
  const Handle sent = At(0).Send(1, 1, bytes.data(), bytes.size());
  const Handle receive = At(0).Receive(1, 1, received.data(), received.size());
  At(0).Progress();
  At(0).Abort();
  At(0).Abort();
  for (const Handle& request : {sent, receive, At(0).Send(1, 1, bytes.data(), 1),
                                At(0).Receive(1, 1, received.data(), 10)}) {
    EXPECT_TRUE(request->done);
    EXPECT_FALSE(request->status.ok());
  }
  EXPECT_EQ(At(0).Find(0, 0), std::nullopt);
}

class ManyRanks : public TransportTest {
 protected:
  static constexpr int kRanks = 4;
  ManyRanks() : TransportTest(kRanks) {}
};

// Each rank is a thread, which sends messages of random sizes and tags to all others, and receives
// theirs in an order of its own.
TEST_F(ManyRanks, AnyOrderOfSendsAndReceives) {
  constexpr int kMessages = 150;
  for (unsigned seed = 0; seed < 5; ++seed) {
    const auto draw = [&](int from, int to, int number) {
      std::mt19937 random(seed * 1000003 +
                          static_cast<unsigned>((from * kRanks + to) * 1009 + number));
      const size_t size = random() % 8 == 0 ? random() % 300'000 : random() % 3000;
      return std::pair<uint64_t, Bytes>{static_cast<unsigned>(from) << 8 | random() % 5,
                                        Pattern(size, static_cast<unsigned>(random()))};
    };
    RunRanks(kRanks, [&](int rank) {
      std::deque<Bytes> kept;
      std::vector<Handle> requests;
      std::vector<std::pair<int, int>> order;
      std::map<int, std::map<uint64_t, std::deque<Bytes>>> expected;
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        for (int i = 0; i < kMessages; ++i) {
          order.emplace_back(peer, i);
          auto [tag, bytes] = draw(peer, rank, i);
          expected[peer][tag].push_back(std::move(bytes));
        }
      }
      std::mt19937 random(seed * 77 + static_cast<unsigned>(rank));
      std::stable_sort(order.begin(), order.end(),
                       [](const auto& a, const auto& b) { return a.second / 10 < b.second / 10; });
      struct Open {
        Handle handle;
        Bytes place;
        Bytes wanted;
      };
      std::deque<Open> open;
      for (const auto& [peer, i] : order) {
        auto [tag, bytes] = draw(rank, peer, i);
        kept.push_back(std::move(bytes));
        requests.push_back(At(rank).Send(peer, tag, kept.back().data(), kept.back().size()));
        // A receive for some message of some peer that is not received yet.
        auto from = expected.begin();
        std::advance(from, random() % expected.size());
        auto of_tag = from->second.begin();
        std::advance(of_tag, random() % from->second.size());
        Bytes wanted = std::move(of_tag->second.front());
        of_tag->second.pop_front();
        open.push_back({nullptr, Bytes(wanted.size()), std::move(wanted)});
        open.back().handle = At(rank).Receive(from->first, of_tag->first, open.back().place.data(),
                                              open.back().place.size());
        if (of_tag->second.empty()) from->second.erase(of_tag);
        if (from->second.empty()) expected.erase(from);
      }
      for (const Open& each : open) requests.push_back(each.handle);
      for (const Handle& request : requests) {
        ASSERT_TRUE(WaitFor(rank, request));
        ASSERT_TRUE(request->status.ok()) << request->status.error().what;
      }
      for (const Open& each : open) EXPECT_TRUE(each.place == each.wanted);
    });
  }
}

}  // namespace
}  // namespace ddprun::trainer
