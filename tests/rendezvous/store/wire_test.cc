#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rendezvous/store/wire_decoder.h"

namespace ddprun::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Bytes(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text.push_back(static_cast<char>(byte));
  return text;
}

std::string Length(uint64_t length) {
  std::string text(8, '\0');
  for (int i = 0; i < 8; ++i) text[i] = static_cast<char>(length >> (8 * i));
  return text;
}

std::string Text(const std::string& text) {
  return Length(text.size()) + text;
}

// Captured from torch 2.11's client.
const std::string kHandshake = Bytes({0x00, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 0xf1, 0x26, 0, 0});
const std::string kAddInit =
    Bytes({0x04, 5, 0, 0, 0, 0, 0, 0, 0}) + "init/" + Bytes({1, 0, 0, 0, 0, 0, 0, 0});
const std::string kSetKey = Bytes({0x01}) + Text("/k") + Text("v");
const std::string kWaitKey = Bytes({0x06}) + Length(1) + Text("/k");
const std::string kMultiSetTwo =
    Bytes({0x0b}) + Length(2) + Text("/m1") + Text("AA") + Text("/m2") + Text("BBB");

std::vector<Request> DecodeInPieces(const std::string& bytes, size_t piece) {
  RequestDecoder decoder;
  std::vector<Request> requests;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    std::string_view input = std::string_view(bytes).substr(at, piece);
    while (!input.empty()) {
      Request request;
      const auto complete = decoder.Next(input, request);
      EXPECT_TRUE(complete.has_value());
      if (!complete.has_value() || !*complete) break;
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

Error ErrorOf(const std::string& bytes, WireLimits limits = {}) {
  RequestDecoder decoder(limits);
  std::string_view input = bytes;
  Request request;
  const auto complete = decoder.Next(input, request);
  return complete.has_value() ? Error{} : complete.error();
}

TEST(Wire, DecodesTheCapturedHandshake) {
  const auto requests = DecodeInPieces(kHandshake, kHandshake.size());
  ASSERT_EQ(requests.size(), 2);
  EXPECT_EQ(requests[0].op, Op::kValidate);
  EXPECT_EQ(requests[0].nonce, kValidateMagic);
  EXPECT_EQ(requests[1].op, Op::kPing);
  EXPECT_EQ(requests[1].nonce, 0x26f1);
}

TEST(Wire, DecodesTheSameRequestsWhateverTheSegments) {
  const std::string all = kHandshake + kAddInit + kSetKey + kWaitKey + kMultiSetTwo +
                          Bytes({0x0c, 0x07, 0x11}) + Bytes({0x02}) + Text("/c") + Text("") +
                          Text("new") + Bytes({0x12}) + Text("/b") + Length(4);
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    const auto requests = DecodeInPieces(all, piece);
    ASSERT_EQ(requests.size(), 11) << "in pieces of " << piece;
    EXPECT_EQ(requests[2].key, "init/");
    EXPECT_EQ(requests[2].number, 1);
    EXPECT_EQ(requests[3].value, "v");
    EXPECT_THAT(requests[4].keys, ElementsAre("/k"));
    EXPECT_THAT(requests[5].keys, ElementsAre("/m1", "/m2"));
    EXPECT_THAT(requests[5].values, ElementsAre("AA", "BBB"));
    EXPECT_EQ(requests[6].op, Op::kCancelWait);
    EXPECT_EQ(requests[8].op, Op::kListKeys);
    EXPECT_EQ(requests[9].expected, "");
    EXPECT_EQ(requests[9].value, "new");
    EXPECT_EQ(requests[10].number, 4);
  }
}

TEST(Wire, SplitsAtEveryByteAfterWhichTheRestFollows) {
  for (size_t cut = 0; cut <= kMultiSetTwo.size(); ++cut) {
    RequestDecoder decoder;
    Request request;
    std::string_view first = std::string_view(kMultiSetTwo).substr(0, cut);
    std::string_view second = std::string_view(kMultiSetTwo).substr(cut);
    auto complete = decoder.Next(first, request);
    ASSERT_TRUE(complete.has_value());
    EXPECT_EQ(*complete, cut == kMultiSetTwo.size());
    if (*complete) continue;
    complete = decoder.Next(second, request);
    ASSERT_TRUE(complete.has_value() && *complete) << "cut at " << cut;
    EXPECT_THAT(request.values, ElementsAre("AA", "BBB"));
  }
}

TEST(Wire, EncodesWhatItDecodes) {
  const std::string all = kHandshake + kAddInit + kSetKey + kWaitKey + kMultiSetTwo;
  std::string encoded;
  for (const Request& request : DecodeInPieces(all, 7)) EncodeRequest(request, encoded);
  EXPECT_EQ(encoded, all);
}

TEST(Wire, AcceptsListsWithoutKeys) {
  const auto requests = DecodeInPieces(Bytes({0x06}) + Length(0) + Bytes({0x0b}) + Length(0), 3);
  ASSERT_EQ(requests.size(), 2);
  EXPECT_TRUE(requests[0].keys.empty());
}

TEST(Wire, RefusesUnknownRequests) {
  EXPECT_THAT(ErrorOf(Bytes({0x13})).what, HasSubstr("19"));
  EXPECT_THAT(ErrorOf("GET / HTTP/1.1\r\n").what, HasSubstr("71"));
}

TEST(Wire, RefusesLengthsBeyondTheLimitsBeforeTheirBytesArrive) {
  EXPECT_THAT(ErrorOf(Bytes({0x03}) + Length(~uint64_t{0})).what, HasSubstr("bytes"));
  EXPECT_THAT(ErrorOf(Bytes({0x05}) + Length(131073)).what, HasSubstr("131073 keys"));
  WireLimits small;
  small.max_message_bytes = 10;
  EXPECT_THAT(ErrorOf(Bytes({0x01}) + Text("/k") + Length(9), small).what,
              HasSubstr("more than 10"));
}

TEST(Wire, DecodesQueuePopWithAndWithoutAValue) {
  ReplyDecoder decoder;
  decoder.Expect(Op::kQueuePop, 0);
  const std::string two = Length(2) + Text("one");
  Reply reply;
  for (size_t i = 0; i < two.size(); ++i) {
    std::string_view input = std::string_view(two).substr(i, 1);
    const auto complete = decoder.Next(input, reply);
    ASSERT_TRUE(complete.has_value());
    EXPECT_EQ(*complete, i + 1 == two.size());
  }
  EXPECT_EQ(reply.number, 2);
  EXPECT_THAT(reply.values, ElementsAre("one"));

  decoder.Expect(Op::kQueuePop, 0);
  const std::string none = Length(0);
  std::string_view input = none;
  ASSERT_TRUE(*decoder.Next(input, reply));
  EXPECT_TRUE(reply.values.empty());
}

TEST(Wire, DecodesEveryFormOfReplyThatItEncodes) {
  for (int op = 0; op <= 0x12; ++op) {
    Reply reply;
    reply.form = FormOfReply(static_cast<Op>(op));
    reply.status = 1;
    reply.nonce = 7;
    reply.number = 2;
    reply.values = {"first", "second"};
    if (reply.form == ReplyForm::kValue || reply.form == ReplyForm::kNumberAndValue) {
      reply.values.pop_back();
    }
    if (reply.form == ReplyForm::kNumber) reply.values.clear();
    std::string bytes;
    EncodeReply(reply, bytes);
    ReplyDecoder decoder;
    decoder.Expect(static_cast<Op>(op), 2);
    Reply decoded;
    std::string_view input = bytes;
    ASSERT_TRUE(*decoder.Next(input, decoded)) << op;
    EXPECT_TRUE(input.empty()) << op;
    std::string again;
    EncodeReply(decoded, again);
    EXPECT_EQ(again, bytes) << op;
  }
}

TEST(Wire, TakesRepliesAsLargeAsAServerSendsAndNoLarger) {
  const auto accepts = [](uint64_t announced) {
    ReplyDecoder decoder;
    decoder.Expect(Op::kGet, 0);
    const std::string length = Length(announced);
    std::string_view input = length;
    Reply reply;
    return decoder.Next(input, reply).has_value();
  };
  EXPECT_TRUE(accepts(kMaxReplyBytes));
  EXPECT_FALSE(accepts(kMaxReplyBytes + 1));
}

TEST(Wire, AReplyBeginsAnewWhereTheOneBeforeWasCutOff) {
  ReplyDecoder decoder;
  Reply reply;
  for (const size_t cut : {1, 8, 9}) {
    decoder.Expect(Op::kGet, 0);
    const std::string lost = Text("lost");
    std::string_view part = std::string_view(lost).substr(0, cut);
    ASSERT_FALSE(*decoder.Next(part, reply));
  }
  decoder.Expect(Op::kPing, 0);
  std::string_view input = "\1\2\3\4";
  ASSERT_TRUE(*decoder.Next(input, reply));
  EXPECT_EQ(reply.nonce, 0x04030201);
  EXPECT_EQ(decoder.held_bytes(), 0);
}

}  // namespace
}  // namespace ddprun::rendezvous
