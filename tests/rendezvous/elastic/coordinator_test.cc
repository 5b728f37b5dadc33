// The coordinator against connections that are no nodes of ours, or no good ones.
#include "rendezvous/elastic/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include <nlohmann/json.hpp>

#include "rendezvous/elastic/control_message.h"
#include "rendezvous/elastic/elastic_text.h"
#include "rendezvous/net/socket.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/store/store_server.h"
#include "tests/rendezvous/loop_thread.h"

namespace ddprun::rendezvous {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string Frame(const std::string& text) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(text.size() >> shift & 0xff));
  }
  return bytes + text;
}

class CoordinatorTest : public testing::Test {
 protected:
  explicit CoordinatorTest(std::chrono::milliseconds handshake_timeout = std::chrono::hours(1)) {
    served_.loop().Do([&] {
      CoordinatorOptions options;
      options.handshake_timeout = handshake_timeout;
      coordinator_ = std::make_unique<Coordinator>(served_.loop().io(), options);
      coordinator_->ServeOn(served_.server());
    });
  }
  ~CoordinatorTest() override {
    served_.loop().Do([this] { coordinator_.reset(); });
  }

  Stream Connected(std::string_view first = kControlPreamble) {
    Stream stream = *Stream::Connect(served_.endpoint(), Soon());
    EXPECT_TRUE(stream.Write(first, Soon()).ok());
    return stream;
  }

  static bool IsClosed(Stream& stream) {
    char byte;
    const auto count = stream.ReadSome(std::span(&byte, 1), Soon());
    return !count.has_value() && count.error().code == Code::kFailed;
  }

  static std::string ReadBytes(Stream& stream, size_t size) {
    std::string bytes(size, '\0');
    for (size_t done = 0; done < size;) {
      done += *stream.ReadSome(std::span(bytes).subspan(done), Soon());
    }
    return bytes;
  }

  static json ReadMessage(Stream& stream) {
    size_t size = 0;
    for (const char byte : ReadBytes(stream, 4)) size = size << 8 | static_cast<uint8_t>(byte);
    return json::parse(ReadBytes(stream, size));
  }

  static Hello SomeHello() {
    Hello hello;
    hello.run_id = "job";
    hello.rules.min_nodes = 2;
    hello.rules.max_nodes = 2;
    return hello;
  }

  size_t NumNodes() {
    return served_.loop().Do([this] { return coordinator_->num_nodes(); });
  }

  ServedStore served_;
  std::unique_ptr<Coordinator> coordinator_;
};

class ImpatientCoordinatorTest : public CoordinatorTest {
 protected:
  ImpatientCoordinatorTest() : CoordinatorTest(std::chrono::milliseconds(20)) {}
};

TEST_F(CoordinatorTest, UnderstandsWhatComesByteByByte) {
  Stream stream = Connected("");
  const std::string bytes = std::string(kControlPreamble) + Frame(ToJson(SomeHello()).dump()) +
                            Frame(R"({"type":"join"})");
  for (const char byte : bytes) {
    ASSERT_TRUE(stream.Write(std::string_view(&byte, 1), Soon()).ok());
  }
  EXPECT_EQ(TextOf(ReadMessage(stream), "type"), "welcome");
  EXPECT_EQ(TextOf(ReadMessage(stream), "line"), "1 of 2 nodes joined");
  EXPECT_EQ(NumNodes(), 1);
}

TEST_F(CoordinatorTest, HearsAJoinThatComesLongAfterTheHello) {
  Stream patient = Connected();
  ASSERT_TRUE(patient.Write(Frame(ToJson(SomeHello()).dump()), Soon()).ok());
  EXPECT_EQ(TextOf(ReadMessage(patient), "type"), "welcome");
  {
    Stream other = Connected();
    Hello hello = SomeHello();
    hello.run_id = "another job";
    ASSERT_TRUE(other.Write(Frame(ToJson(hello).dump()), Soon()).ok());
    EXPECT_EQ(TextOf(ReadMessage(other), "type"), "welcome");
  }
  while (NumNodes() > 1) std::this_thread::yield();
  ASSERT_TRUE(patient.Write(Frame(R"({"type":"join"})"), Soon()).ok());
  EXPECT_EQ(TextOf(ReadMessage(patient), "line"), "1 of 2 nodes joined");
}

TEST_F(CoordinatorTest, ClosesWhatIsNoMessage) {
  for (const std::string& bytes :
       {Frame("not JSON"), Frame("[1, 2]"), Frame(R"({"type": 1})"), Frame(std::string(1000, '[')),
        std::string("\xff\xff\xff\xff")}) {
    Stream stream = Connected();
    ASSERT_TRUE(stream.Write(bytes, Soon()).ok());
    EXPECT_TRUE(IsClosed(stream)) << bytes;
  }
  Stream stream = Connected("ddpfun\n....");
  EXPECT_TRUE(IsClosed(stream));
}

TEST_F(CoordinatorTest, SaysToAnotherVersionWhatIsWrong) {
  Hello hello = SomeHello();
  hello.protocol = kControlProtocol + 1;
  Stream stream = Connected();
  ASSERT_TRUE(stream.Write(Frame(ToJson(hello).dump()), Soon()).ok());
  const json refusal = ReadMessage(stream);
  EXPECT_EQ(TextOf(refusal, "type"), "refuse");
  EXPECT_THAT(TextOf(refusal, "what"), HasSubstr("version " + std::to_string(hello.protocol)));
}

TEST_F(ImpatientCoordinatorTest, ClosesConnectionsThatSayNothing) {
  Stream silent = Connected();
  Stream half = Connected("ddp");
  EXPECT_TRUE(IsClosed(silent));
  EXPECT_TRUE(IsClosed(half));
}

TEST_F(CoordinatorTest, VotesAndSendsNodesToTheHostThatItChose) {
  const auto lease = std::chrono::milliseconds(500);
  const std::string hosts = "a:1,b:1,c:1";
  Ballot ballot{.kind = Ballot::Kind::kLead,
                .job = ElectedJob("job", hosts),
                .candidate = 1,
                .epoch = 1,
                .lease = lease};
  const auto ask = [&] {
    Stream stream = Connected();
    EXPECT_TRUE(stream.Write(Frame(ToJson(ballot).dump()), Soon()).ok());
    return VoteOf(ReadMessage(stream)).value_or(Vote());
  };
  ballot.lease = std::chrono::hours(1);
  EXPECT_FALSE(ask().granted) << "it has started during that time";
  std::this_thread::sleep_for(lease);
  ballot.lease = lease;
  EXPECT_TRUE(ask().granted);
  Hello hello = SomeHello();
  hello.hosts = hosts;
  Stream node = Connected();
  ASSERT_TRUE(node.Write(Frame(ToJson(hello).dump()), Soon()).ok());
  EXPECT_EQ(TextOf(ReadMessage(node), "type"), "elsewhere");
  EXPECT_EQ(NumNodes(), 0);
  Stream nonsense = Connected();
  ASSERT_TRUE(nonsense.Write(Frame(R"({"type":"ballot"})"), Soon()).ok());
  EXPECT_FALSE(VoteOf(ReadMessage(nonsense))->granted);
}

TEST_F(CoordinatorTest, ClosesItsNodesWhenItLeadsNoLonger) {
  std::atomic<bool> leads = true;
  served_.loop().Do([&] { coordinator_->Lead([&] { return leads.load(); }); });
  Hello hello = SomeHello();
  Stream other = Connected();  // of a job with one host
  ASSERT_TRUE(other.Write(Frame(ToJson(hello).dump()), Soon()).ok());
  EXPECT_EQ(TextOf(ReadMessage(other), "type"), "welcome");
  hello.run_id = "elected";
  hello.hosts = "a:1,b:1,c:1";
  Stream node = Connected();
  ASSERT_TRUE(node.Write(Frame(ToJson(hello).dump()), Soon()).ok());
  EXPECT_EQ(TextOf(ReadMessage(node), "type"), "welcome");
  leads = false;
  ASSERT_TRUE(node.Write(Frame(R"({"type":"join"})"), Soon()).ok());
  EXPECT_TRUE(IsClosed(node));
  EXPECT_EQ(NumNodes(), 1);
  ASSERT_TRUE(other.Write(Frame(R"({"type":"join"})"), Soon()).ok());
  EXPECT_EQ(TextOf(ReadMessage(other), "line"), "1 of 2 nodes joined");
}

TEST_F(CoordinatorTest, SurvivesAnyMessages) {
  std::mt19937 random(7);
  const auto pick = [&](const auto& from) {
    return from[std::uniform_int_distribution<size_t>(0, std::size(from) - 1)(random)];
  };
  const char* const types[] = {"hello", "join",  "opened",   "reached", "unreached",
                               "end",   "leave", "withdraw", "heard",   "alive"};
  const json values[] = {0, 1, 2, -1, int64_t{1} << 62, "text", nullptr, true, json::array(), 0.5};
  const char* const keys[] = {"attempt", "port", "kind", "message", "ends_job", "problem"};
  for (int connection = 0; connection < 60; ++connection) {
    Stream stream = Connected();
    Hello hello = SomeHello();
    hello.rules.min_nodes = hello.rules.max_nodes = connection % 3 + 1;
    hello.run_id = std::to_string(connection % 3);
    std::string bytes = Frame(ToJson(hello).dump());
    for (int i = 0; i < 40; ++i) {
      json message = {{"type", pick(types)}};
      for (int fields = 0; fields < 3; ++fields) message[pick(keys)] = pick(values);
      bytes += Frame(message.dump());
    }
    ASSERT_TRUE(stream.Write(bytes, Soon()).ok());
    EXPECT_EQ(TextOf(ReadMessage(stream), "type"), "welcome");
  }
  Stream good = Connected();
  ASSERT_TRUE(good.Write(Frame(ToJson(SomeHello()).dump()), Soon()).ok());
  EXPECT_EQ(TextOf(ReadMessage(good), "type"), "welcome");
}

}  // namespace
}  // namespace ddprun::rendezvous
