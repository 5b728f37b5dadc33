#include "rendezvous/store/store_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Connections are small numbers; replies are shown as "connection:content".
class StoreStateTest : public testing::Test {
 protected:
  std::vector<std::string> Do(ConnectionId from, Request request) {
    std::vector<OutgoingReply> replies;
    refused_ = !state_.Handle(from, std::move(request), replies).ok();
    std::vector<std::string> shown;
    for (const auto& [to, reply] : replies) {
      std::string text = std::to_string(to) + ":";
      switch (reply.form) {
        case ReplyForm::kStatus:
          text += reply.status == 0 ? "ok" : "no";
          break;
        case ReplyForm::kNonce:
          text += "nonce " + std::to_string(reply.nonce);
          break;
        case ReplyForm::kNumber:
        case ReplyForm::kNumberAndValue:
          text += std::to_string(reply.number);
          break;
        default:
          break;
      }
      for (const std::string& value : reply.values) text += "[" + value + "]";
      shown.push_back(text);
    }
    return shown;
  }

  std::vector<std::string> Key(ConnectionId from,
                               Op op,
                               const std::string& key,
                               const std::string& value = "",
                               const std::string& expected = "",
                               int64_t number = 0) {
    Request request;
    request.op = op;
    request.key = key;
    request.value = value;
    request.expected = expected;
    request.number = number;
    return Do(from, request);
  }
  std::vector<std::string> Keys(ConnectionId from, Op op, std::vector<std::string> keys = {}) {
    Request request;
    request.op = op;
    request.keys = std::move(keys);
    return Do(from, request);
  }
  std::vector<std::string> Set(const std::string& key, const std::string& value) {
    return Key(9, Op::kSet, key, value);
  }
  std::string Get(const std::string& key) { return Key(9, Op::kGet, key).at(0); }
  std::vector<std::string> Add(const std::string& key, int64_t delta) {
    return Key(9, Op::kAdd, key, "", "", delta);
  }
  std::vector<std::string> CompareSet(const std::string& key,
                                      const std::string& expected,
                                      const std::string& desired) {
    return Key(9, Op::kCompareSet, key, desired, expected);
  }

  StoreState state_;
  bool refused_ = false;
};

TEST_F(StoreStateTest, GivesBackWhatWasSet) {
  EXPECT_THAT(Set("k", "v"), IsEmpty());
  EXPECT_EQ(Get("k"), "9:[v]");
  Set("k", "");
  EXPECT_EQ(Get("k"), "9:[]");
}

TEST_F(StoreStateTest, ReadsAMissingKeyAsEmpty) {
  EXPECT_EQ(Get("absent"), "9:[]");
  EXPECT_FALSE(refused_);
}

TEST_F(StoreStateTest, AppendsToWhatIsThere) {
  Key(1, Op::kAppend, "k", "ab");
  Key(1, Op::kAppend, "k", "c");
  EXPECT_EQ(Get("k"), "9:[abc]");
}

TEST_F(StoreStateTest, AddKeepsADecimalText) {
  EXPECT_THAT(Add("n", 3), ElementsAre("9:3"));
  EXPECT_THAT(Add("n", -5), ElementsAre("9:-2"));
  EXPECT_EQ(Get("n"), "9:[-2]");
}

TEST_F(StoreStateTest, AddReadsNumbersAsStrtollDoes) {
  Set("n", " 12abc");
  EXPECT_THAT(Add("n", 1), ElementsAre("9:13"));
  Set("n", "9223372036854775807");
  EXPECT_THAT(Add("n", 1), ElementsAre("9:-9223372036854775808"));
}

TEST_F(StoreStateTest, AddToSomethingElseClosesTheConnection) {
  Set("n", "abc");
  EXPECT_THAT(Add("n", 1), IsEmpty());
  EXPECT_TRUE(refused_);
  Set("n", "99999999999999999999");
  Add("n", 1);
  EXPECT_TRUE(refused_);
}

TEST_F(StoreStateTest, CompareSetCreatesWhenNothingIsExpected) {
  EXPECT_THAT(CompareSet("k", "", "new"), ElementsAre("9:[new]"));
  EXPECT_EQ(Get("k"), "9:[new]");
}

TEST_F(StoreStateTest, CompareSetOfAnAbsentKeyGivesBackTheExpectedValue) {
  EXPECT_THAT(CompareSet("k", "old", "new"), ElementsAre("9:[old]"));
  EXPECT_THAT(Keys(9, Op::kCheck, {"k"}), ElementsAre("9:no"));
}

TEST_F(StoreStateTest, CompareSetReplacesOnlyWhatIsExpected) {
  Set("k", "a");
  EXPECT_THAT(CompareSet("k", "b", "c"), ElementsAre("9:[a]"));
  EXPECT_THAT(CompareSet("k", "a", "c"), ElementsAre("9:[c]"));
}

TEST_F(StoreStateTest, CheckWantsAllKeys) {
  Set("a", "");
  EXPECT_THAT(Keys(1, Op::kCheck, {"a"}), ElementsAre("1:ok"));
  EXPECT_THAT(Keys(1, Op::kCheck, {"a", "b"}), ElementsAre("1:no"));
  EXPECT_THAT(Keys(1, Op::kCheck), ElementsAre("1:ok"));
}

TEST_F(StoreStateTest, AnswersAWaitAtOnceWhenTheKeysAreThere) {
  Set("a", "");
  EXPECT_THAT(Keys(1, Op::kWait, {"a"}), ElementsAre("1:ok"));
  EXPECT_THAT(Keys(1, Op::kWait), ElementsAre("1:ok"));
}

TEST_F(StoreStateTest, WakesEveryWaiterWhenTheKeyArrives) {
  EXPECT_THAT(Keys(1, Op::kWait, {"k"}), IsEmpty());
  EXPECT_THAT(Keys(2, Op::kWait, {"k"}), IsEmpty());
  EXPECT_THAT(Set("k", "v"), ElementsAre("1:ok", "2:ok"));
  EXPECT_THAT(Set("k", "again"), IsEmpty());
}

TEST_F(StoreStateTest, WakesAWaiterOnlyWhenAllItsKeysHaveArrived) {
  Keys(1, Op::kWait, {"a", "b", "a"});
  EXPECT_THAT(Set("a", ""), IsEmpty());
  EXPECT_THAT(state_.waits().Missing(1), ElementsAre("b"));
  EXPECT_THAT(Set("b", ""), ElementsAre("1:ok"));
}

TEST_F(StoreStateTest, EveryKindOfCreationWakes) {
  Keys(1, Op::kWait, {"add"});
  EXPECT_THAT(Add("add", 1), UnorderedElementsAre("1:ok", "9:1"));
  Keys(1, Op::kWait, {"append"});
  EXPECT_THAT(Key(9, Op::kAppend, "append", "x"), ElementsAre("1:ok"));
  Keys(1, Op::kWait, {"cas"});
  EXPECT_THAT(CompareSet("cas", "", "x"), UnorderedElementsAre("1:ok", "9:[x]"));
  Keys(1, Op::kWait, {"push"});
  EXPECT_THAT(Key(9, Op::kQueuePush, "push", "x"), ElementsAre("1:ok"));
  Keys(1, Op::kWait, {"multi"});
  Request multi;
  multi.op = Op::kMultiSet;
  multi.keys = {"multi"};
  multi.values = {"x"};
  EXPECT_THAT(Do(9, multi), ElementsAre("1:ok"));
}

TEST_F(StoreStateTest, CompareSetThatStoresNothingWakesNobody) {
  Keys(1, Op::kWait, {"k"});
  EXPECT_THAT(CompareSet("k", "old", "new"), ElementsAre("9:[old]"));
}

TEST_F(StoreStateTest, WakesForAKeyThatIsDeletedAtOnce) {
  Keys(1, Op::kWait, {"k"});
  EXPECT_THAT(Set("k", "v"), ElementsAre("1:ok"));
  EXPECT_THAT(Key(9, Op::kDeleteKey, "k"), ElementsAre("9:1"));
  EXPECT_THAT(Keys(1, Op::kWait, {"k"}), IsEmpty());
}

TEST_F(StoreStateTest, RemembersAKeyThatArrivedAndWasDeletedWhileOthersWereMissing) {
  Keys(1, Op::kWait, {"a", "b"});
  Set("a", "");
  Key(9, Op::kDeleteKey, "a");
  EXPECT_THAT(Set("b", ""), ElementsAre("1:ok"));
}

TEST_F(StoreStateTest, AnswersEveryCancellation) {
  EXPECT_THAT(Keys(1, Op::kCancelWait), ElementsAre("1:no"));
  Keys(1, Op::kWait, {"k"});
  EXPECT_THAT(Keys(1, Op::kCancelWait), ElementsAre("1:no"));
  EXPECT_THAT(Set("k", ""), IsEmpty());
}

TEST_F(StoreStateTest, WaitsAgainAfterACancellation) {
  Keys(1, Op::kWait, {"k"});
  Keys(1, Op::kCancelWait);
  EXPECT_THAT(Keys(1, Op::kWait, {"k"}), IsEmpty());
  EXPECT_THAT(Set("k", ""), ElementsAre("1:ok"));
}

TEST_F(StoreStateTest, RefusesASecondWaitWhileTheFirstIsOpen) {
  Keys(1, Op::kWait, {"k"});
  EXPECT_THAT(Keys(1, Op::kWait, {"l"}), IsEmpty());
  EXPECT_TRUE(refused_);
}

TEST_F(StoreStateTest, ForgetsWhoDisconnects) {
  Keys(1, Op::kWait, {"b", "a"});
  EXPECT_THAT(state_.waits().Missing(1), ElementsAre("a", "b"));
  state_.Disconnect(1);
  state_.Disconnect(1);
  EXPECT_THAT(Set("a", ""), IsEmpty());
  EXPECT_EQ(state_.waits().num_parked(), 0);
}

TEST_F(StoreStateTest, DeletesOnlyWhatExists) {
  Set("k", "v");
  EXPECT_THAT(Key(9, Op::kDeleteKey, "k"), ElementsAre("9:1"));
  EXPECT_THAT(Key(9, Op::kDeleteKey, "k"), ElementsAre("9:0"));
}

TEST_F(StoreStateTest, MultiGetKeepsTheOrderOfTheRequest) {
  Set("a", "1");
  Set("b", "2");
  EXPECT_THAT(Keys(1, Op::kMultiGet, {"b", "absent", "a", "b"}), ElementsAre("1:[2][][1][2]"));
}

TEST_F(StoreStateTest, CountsAndListsKeysButNotQueues) {
  Set("a", "1");
  Key(9, Op::kQueuePush, "q", "x");
  EXPECT_THAT(Keys(1, Op::kGetNumKeys), ElementsAre("1:1"));
  EXPECT_THAT(Keys(1, Op::kListKeys), ElementsAre("1:[a]"));
}

TEST_F(StoreStateTest, AnswersAPingWithItsNonce) {
  Request ping;
  ping.op = Op::kPing;
  ping.nonce = 77;
  EXPECT_THAT(Do(1, ping), ElementsAre("1:nonce 77"));
}

TEST_F(StoreStateTest, PopsInTheOrderOfPushesAndTellsTheLengthBefore) {
  Key(9, Op::kQueuePush, "q", "one");
  Key(9, Op::kQueuePush, "q", "two");
  EXPECT_THAT(Key(1, Op::kQueueLen, "q"), ElementsAre("1:2"));
  EXPECT_THAT(Key(1, Op::kQueuePop, "q"), ElementsAre("1:2[one]"));
  EXPECT_THAT(Key(1, Op::kQueuePop, "q"), ElementsAre("1:1[two]"));
  EXPECT_THAT(Key(1, Op::kQueuePop, "q"), ElementsAre("1:0"));
  EXPECT_THAT(Key(1, Op::kQueueLen, "q"), ElementsAre("1:0"));
}

TEST_F(StoreStateTest, APushWakesOneWaiterInTheOrderOfTheirComing) {
  Keys(1, Op::kWait, {"q"});
  Keys(2, Op::kWait, {"q"});
  EXPECT_THAT(Key(9, Op::kQueuePush, "q", "x"), ElementsAre("1:ok"));
  EXPECT_THAT(Key(9, Op::kQueuePush, "q", "y"), ElementsAre("2:ok"));
}

TEST_F(StoreStateTest, AWaitSeesQueuesAndKeysTogether) {
  Key(9, Op::kQueuePush, "q", "x");
  EXPECT_THAT(Keys(1, Op::kCheck, {"q"}), ElementsAre("1:ok"));
  Keys(1, Op::kWait, {"q", "absent"});
  EXPECT_THAT(Set("absent", ""), ElementsAre("1:ok"));
}

TEST_F(StoreStateTest, DeleteLeavesQueuesAlone) {
  Key(9, Op::kQueuePush, "q", "x");
  EXPECT_THAT(Key(9, Op::kDeleteKey, "q"), ElementsAre("9:0"));
  EXPECT_THAT(Key(9, Op::kQueueLen, "q"), ElementsAre("9:1"));
}

TEST_F(StoreStateTest, ABarrierOpensWhenAllHaveCome) {
  EXPECT_THAT(Key(1, Op::kBarrier, "b", "", "", 3), IsEmpty());
  EXPECT_THAT(Key(2, Op::kBarrier, "b", "", "", 3), IsEmpty());
  EXPECT_THAT(Key(3, Op::kBarrier, "b", "", "", 3), ElementsAre("3:ok", "1:ok", "2:ok"));
  EXPECT_EQ(Get("b"), "9:[3]");
}

TEST_F(StoreStateTest, ABarrierCanBeCancelledButStaysCounted) {
  Key(1, Op::kBarrier, "b", "", "", 2);
  EXPECT_THAT(Keys(1, Op::kCancelWait), ElementsAre("1:no"));
  EXPECT_THAT(Key(2, Op::kBarrier, "b", "", "", 2), ElementsAre("2:ok"));
}

TEST_F(StoreStateTest, SettingABarriersKeyDoesNotOpenIt) {
  Key(1, Op::kBarrier, "b", "", "", 2);
  EXPECT_THAT(Set("b", "7"), IsEmpty());
  EXPECT_THAT(state_.waits().Missing(1), ElementsAre("b"));
}

TEST(StoreStateLimits, RefusesToGrowBeyondThemAndRecoversSpace) {
  StoreState state(StoreLimits{.max_total_bytes = 10, .max_entries = 2, .max_reply_bytes = 8});
  std::vector<OutgoingReply> replies;
  const auto put = [&](const std::string& key, const std::string& value) {
    Request request;
    request.op = Op::kSet;
    request.key = key;
    request.value = value;
    return state.Handle(1, request, replies).ok();
  };
  EXPECT_TRUE(put("a", "12345"));
  EXPECT_FALSE(put("b", "1234567"));
  EXPECT_TRUE(put("b", "1"));
  EXPECT_FALSE(put("c", ""));
  Request erase;
  erase.op = Op::kDeleteKey;
  erase.key = "a";
  EXPECT_TRUE(state.Handle(1, erase, replies).ok());
  EXPECT_TRUE(put("c", "12345"));

  Request get;
  get.op = Op::kMultiGet;
  get.keys = {"c", "c"};
  EXPECT_FALSE(state.Handle(1, get, replies).ok());
}

TEST(StoreStateLimits, ACompareSetThatIsRefusedIsNotAnswered) {
  StoreState state(StoreLimits{.max_total_bytes = 10});
  std::vector<OutgoingReply> replies;
  Request request;
  request.op = Op::kCompareSet;
  request.key = "k";
  request.value = "too long for it";
  EXPECT_FALSE(state.Handle(1, request, replies).ok());
  EXPECT_THAT(replies, IsEmpty());
}

TEST(StoreStateLimits, NoValueGrowsBeyondWhatCanBeRead) {
  StoreState state(StoreLimits{.max_reply_bytes = 8});
  std::vector<OutgoingReply> replies;
  Request append;
  append.op = Op::kAppend;
  append.key = "k";
  append.value = "12345";
  EXPECT_TRUE(state.Handle(1, append, replies).ok());
  EXPECT_FALSE(state.Handle(1, append, replies).ok());
  EXPECT_EQ(state.total_bytes(), 6);
}

}  // namespace
}  // namespace ddprun::rendezvous
