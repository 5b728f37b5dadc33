// The store's promise to several clients at once, with real sockets and threads: what happens to
// each key is linearizable. DDPRUN_STORE_HISTORIES=N makes N histories instead of the usual number.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/env.h"
#include "rendezvous/store/tcp_store.h"
#include "tests/rendezvous/loop_thread.h"
#include "tests/rendezvous/store/linearizable.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kCallers = 4;
constexpr int kCallsOfEach = 80;
constexpr int64_t kUsualHistories = 20;

Request Call(Op op, std::string value = {}, std::string expected = {}, int64_t number = 0) {
  return {.op = op, .number = number, .expected = std::move(expected), .value = std::move(value)};
}

TEST(Linearizable, CallsThatOverlapMayComeInAnyOrder) {
  const PastCall set{Call(Op::kSet, "new"), "", 1, 4};
  EXPECT_TRUE(IsLinearizable({{set}, {{Call(Op::kGet), "", 2, 3}}}));
  EXPECT_TRUE(IsLinearizable({{set}, {{Call(Op::kGet), "new", 2, 3}}}));
  EXPECT_TRUE(IsLinearizable({{set}, {{Call(Op::kGet), "", 2, 2}, {Call(Op::kGet), "new", 3, 3}}}));
  EXPECT_FALSE(
      IsLinearizable({{set}, {{Call(Op::kGet), "new", 2, 2}, {Call(Op::kGet), "", 3, 3}}}));
  // The order is kept between clients, too.
  EXPECT_FALSE(
      IsLinearizable({{set}, {{Call(Op::kGet), "new", 2, 2}}, {{Call(Op::kGet), "", 3, 3}}}));
}

TEST(Linearizable, KeepsTheOrderOfOneClientsCallsThoughTheyEndTogether) {
  const PastCall set{Call(Op::kSet, "new"), "", 1, 4};
  EXPECT_TRUE(IsLinearizable({{set, {Call(Op::kGet), "new", 2, 4}}}));
  EXPECT_FALSE(IsLinearizable({{set, {Call(Op::kGet), "", 2, 4}}}));
}

TEST(Linearizable, FindsAStaleRead) {
  EXPECT_FALSE(IsLinearizable({{{Call(Op::kSet, "a"), "", 1, 2}, {Call(Op::kSet, "b"), "", 3, 4}},
                               {{Call(Op::kGet), "a", 5, 6}}}));
}

TEST(Linearizable, FindsALostAdd) {
  const Request add = Call(Op::kAdd, "", "", 1);
  EXPECT_TRUE(IsLinearizable({{{add, "1", 1, 4}}, {{add, "2", 2, 3}}}));
  EXPECT_FALSE(IsLinearizable({{{add, "1", 1, 4}}, {{add, "1", 2, 3}}}));
  EXPECT_FALSE(IsLinearizable({{{add, "1", 1, 4}}, {{add, "3", 2, 3}}}));
}

TEST(Linearizable, FindsALostAppend) {
  const PastCall a{Call(Op::kAppend, "a"), "", 1, 4};
  const PastCall b{Call(Op::kAppend, "b"), "", 2, 3};
  EXPECT_TRUE(IsLinearizable({{a}, {b}, {{Call(Op::kGet), "ba", 5, 6}}}));
  EXPECT_FALSE(IsLinearizable({{a}, {b}, {{Call(Op::kGet), "b", 5, 6}}}));
  EXPECT_FALSE(IsLinearizable({{a}, {b}, {{Call(Op::kGet), "aba", 5, 6}}}));
}

TEST(Linearizable, FindsTwoWinnersOfOneCompareSet) {
  const PastCall first{Call(Op::kCompareSet, "a"), "a", 1, 4};
  EXPECT_TRUE(IsLinearizable({{first}, {{Call(Op::kCompareSet, "b"), "a", 2, 3}}}));
  EXPECT_FALSE(IsLinearizable({{first}, {{Call(Op::kCompareSet, "b"), "b", 2, 3}}}));
}

TEST(Linearizable, FindsAWaitThatEndsTooEarly) {
  const PastCall wait{Call(Op::kWait), "0", 1, 3};
  EXPECT_TRUE(IsLinearizable({{wait}, {{Call(Op::kSet, "a"), "", 2, 4}}}));
  EXPECT_FALSE(IsLinearizable({{wait}, {{Call(Op::kSet, "a"), "", 4, 5}}}));
}

TEST(Linearizable, FindsAnElementThatTwoHavePopped) {
  const PastCall push{Call(Op::kQueuePush, "a"), "", 1, 2};
  const PastCall pop{Call(Op::kQueuePop), "[a]", 3, 6};
  EXPECT_TRUE(IsLinearizable({{push}, {pop}, {{Call(Op::kQueuePop), "nothing", 4, 5}}}));
  EXPECT_FALSE(IsLinearizable({{push}, {pop}, {pop}}));
}

// One thread with a client of its own, which makes random calls and keeps their histories by key.
class Caller {
 public:
  Caller(const HostPort& server, uint64_t seed, std::string name, std::atomic<uint64_t>& clock)
      : store_(*TcpStore::Connect(server, Soon())),
        random_(seed),
        name_(std::move(name)),
        clock_(clock) {}

  void Run(const std::string& prefix) {
    for (int i = 0; i < kCallsOfEach; ++i) {
      begin_ = ++clock_;
      switch (Draw(4)) {
        case 0:
          CallKey(prefix + "number", std::to_string(Draw(9)));
          break;
        case 1:
          CallKey(prefix + "text", name_ + std::to_string(i) + ",");
          break;
        case 2:
          WaitForAll({prefix + "number", prefix + "text", prefix + "queue"});
          break;
        default:
          CallQueue(prefix + "queue", name_ + std::to_string(i));
      }
    }
    // The last answer: by now the server has done all that this client has sent.
    begin_ = ++clock_;
    Note(prefix + "text", Call(Op::kCheck), Status(store_->Check(Keys(prefix + "text"), Soon())));
  }

  std::map<std::string, ClientHistory> histories;

 private:
  static std::vector<std::string> Keys(const std::string& key) { return {key}; }
  static std::string Status(const Result<bool>& ready) {
    return std::to_string(*ready ? kCheckReady : kCheckNotReady);
  }
  int Draw(int end) { return static_cast<int>(random_() % static_cast<uint64_t>(end)); }
  Deadline Shortly() { return DeadlineAfter(std::chrono::milliseconds(Draw(3))); }

  // A call without an answer ends when a later one of its client has got an answer.
  void Note(const std::string& key, Request request, const std::string& answer) {
    const bool answered = FormOfReply(request.op) != ReplyForm::kNone;
    const uint64_t end = ++clock_;
    histories[key].push_back({std::move(request), answer, begin_, answered ? end : kUnknown});
    if (!answered) return;
    for (auto& [name, calls] : histories) {
      for (auto call = calls.rbegin(); call != calls.rend() && call->end >= kUnknown; ++call) {
        call->end = end;
      }
    }
  }

  // A wait that was given up has found the key absent when it came to the server.
  void NoteAbsent(const std::string& key, const Error& error) {
    EXPECT_EQ(error.code, Code::kDeadlineExceeded) << error.what;
    Note(key, Call(Op::kCheck), std::to_string(kCheckNotReady));
  }

  void CallKey(const std::string& key, const std::string& value) {
    switch (Draw(9)) {
      case 0:
        EXPECT_TRUE(store_->Set(key, value, Soon()).ok());
        return Note(key, Call(Op::kSet, value), "");
      case 1: {
        const std::string old = Draw(2) == 0 ? "" : seen_[key];
        const auto now = store_->CompareSet(key, old, value, Soon());
        seen_[key] = *now;
        return Note(key, Call(Op::kCompareSet, value, old), *now);
      }
      case 2:
        return Note(key, Call(Op::kDeleteKey),
                    std::to_string(static_cast<int>(*store_->Delete(key, Soon()))));
      case 3:
        return Note(key, Call(Op::kCheck), Status(store_->Check(Keys(key), Soon())));
      case 4: {
        const auto wait = store_->Wait(Keys(key), Shortly());
        if (!wait.ok()) return NoteAbsent(key, wait.error());
        return Note(key, Call(Op::kWait), std::to_string(kStopWaiting));
      }
      case 5:
        EXPECT_TRUE(store_->MultiSet(Keys(key), Keys(value), Soon()).ok());
        return Note(key, Call(Op::kSet, value), "");
      case 6:
      case 7:
        if (key.ends_with("number")) {
          return Note(key, Call(Op::kAdd, "", "", 3), std::to_string(*store_->Add(key, 3, Soon())));
        }
        EXPECT_TRUE(store_->Append(key, value, Soon()).ok());
        return Note(key, Call(Op::kAppend, value), "");
      default: {
        const auto value_now = store_->Get(key, Shortly());
        if (!value_now.has_value()) return NoteAbsent(key, value_now.error());
        seen_[key] = *value_now;
        return Note(key, Call(Op::kGet), *value_now);
      }
    }
  }

  void CallQueue(const std::string& key, const std::string& value) {
    const int choice = Draw(5);
    if (choice < 2) {
      EXPECT_TRUE(store_->QueuePush(key, value, Soon()).ok());
      return Note(key, Call(Op::kQueuePush, value), "");
    }
    if (choice == 2) {
      return Note(key, Call(Op::kQueueLen), std::to_string(*store_->QueueLength(key, Soon())));
    }
    const bool block = choice == 3;
    const auto popped = store_->QueuePop(key, block, block ? Shortly() : Soon());
    if (!popped.has_value()) return NoteAbsent(key, popped.error());
    Note(key, Call(Op::kQueuePop), popped->has_value() ? "[" + **popped + "]" : "nothing");
  }

  // Each key was there at some moment, but not necessarily all at the same. A wait that was given
  // up does not say which key was absent.
  void WaitForAll(const std::vector<std::string>& keys) {
    if (!store_->Wait(keys, Shortly()).ok()) return;
    for (const std::string& key : keys) Note(key, Call(Op::kWait), std::to_string(kStopWaiting));
  }

  static constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max() - 1;

  const std::unique_ptr<TcpStore> store_;
  std::mt19937_64 random_;
  const std::string name_;
  std::atomic<uint64_t>& clock_;
  uint64_t begin_ = 0;
  std::map<std::string, std::string> seen_;  // the value of a key that it has seen last
};

TEST(StoreHistory, IsLinearizable) {
  const std::string wanted = Environment::OfProcess().GetOr("DDPRUN_STORE_HISTORIES", "");
  const int64_t histories = wanted.empty() ? kUsualHistories : ParseInt(wanted).value();
  ServedStore served;
  std::atomic<uint64_t> clock = 0;
  for (int64_t seed = 0; seed < histories; ++seed) {
    const std::string prefix = std::to_string(seed) + "/";
    std::vector<std::unique_ptr<Caller>> callers;
    for (size_t i = 0; i < kCallers; ++i) {
      callers.push_back(std::make_unique<Caller>(served.endpoint(), kCallers * seed + i,
                                                 std::string(1, static_cast<char>('A' + i)),
                                                 clock));
    }
    std::barrier start(kCallers);
    std::vector<std::thread> threads;
    for (const auto& caller : callers) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        caller->Run(prefix);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const char* const name : {"number", "text", "queue"}) {
      std::vector<ClientHistory> clients;
      for (const auto& caller : callers) clients.push_back(caller->histories[prefix + name]);
      ASSERT_TRUE(IsLinearizable(clients)) << "seed " << seed << "\n" << ToText(clients);
    }
  }
}

}  // namespace
}  // namespace ddprun::rendezvous
