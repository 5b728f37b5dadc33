// Two ends of a handshake, and an attacker who has all messages but not the token.
#include "rendezvous/secure/handshake.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ddprun::rendezvous {
namespace {

using Next = HandshakeStep::Next;

Token MakeToken(char digit) {
  return *Token::FromText(std::string(64, digit));
}

Nonce MakeNonce(unsigned char byte) {
  Nonce nonce;
  nonce.fill(byte);
  return nonce;
}

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    for (const int digit : {byte >> 4 & 15, byte & 15}) text += "0123456789abcdef"[digit];
  }
  return text;
}

struct Pair {
  explicit Pair(char client_digit = '7', char server_digit = '7')
      : client(MakeClientEnd(MakeToken(client_digit), MakeNonce(1))),
        server(MakeServerEnd(MakeToken(server_digit), MakeNonce(2))) {}

  std::unique_ptr<HandshakeEnd> client;
  std::unique_ptr<HandshakeEnd> server;
};

TEST(Handshake, EndsOfOneTokenPass) {
  Pair pair;
  const HandshakeStep challenge = pair.server->Take(pair.client->Begin());
  EXPECT_EQ(challenge.next, Next::kMore);
  EXPECT_EQ(challenge.used, pair.client->Begin().size());
  EXPECT_EQ(challenge.answer.size(), HandshakeEnd::kLongestMessage);
  const HandshakeStep proof = pair.client->Take(challenge.answer);
  EXPECT_EQ(proof.next, Next::kMore);
  const HandshakeStep accepted = pair.server->Take(proof.answer);
  EXPECT_EQ(accepted.next, Next::kPassed);
  EXPECT_EQ(pair.client->Take(accepted.answer).next, Next::kPassed);
}

// HMAC-SHA256 by Python 3.11's hmac: key 0x77 * 32, the labels and messages of handshake.h.
TEST(Handshake, ProofIsTheOneOfAnotherImplementation) {
  Pair pair;
  const HandshakeStep challenge = pair.server->Take(pair.client->Begin());
  EXPECT_EQ(Hex(challenge.answer.substr(33, 8)), "609a1a01c1337843");
  EXPECT_EQ(Hex(pair.client->Take(challenge.answer).answer.substr(1, 8)), "5f96163dbf57c2ac");
}

TEST(Handshake, AClientOfAnotherTokenFindsOutFirst) {
  Pair pair('1', '2');
  const HandshakeStep challenge = pair.server->Take(pair.client->Begin());
  const HandshakeStep refused = pair.client->Take(challenge.answer);
  EXPECT_EQ(refused.next, Next::kFailed);
  EXPECT_EQ(refused.error.title, "ANOTHER TOKEN");
  EXPECT_EQ(refused.error.code, Code::kRendezvous);
  const HandshakeStep told = pair.server->Take(refused.answer);
  EXPECT_EQ(told.next, Next::kFailed);
  EXPECT_EQ(told.error.what, "has another token");
}

TEST(Handshake, AServerRefusesAProofOfAnotherToken) {
  Pair pair;
  Pair other('1', '1');
  (void)pair.server->Take(pair.client->Begin());
  const HandshakeStep challenge = other.server->Take(other.client->Begin());
  const HandshakeStep refused = pair.server->Take(other.client->Take(challenge.answer).answer);
  EXPECT_EQ(refused.next, Next::kFailed);
  const HandshakeStep told = pair.client->Take(refused.answer);
  EXPECT_EQ(told.error.title, "ANOTHER TOKEN");
}

TEST(Handshake, ARepeatedProofIsRefusedByAServerWithOtherRandomBytes) {
  Pair first;
  const HandshakeStep challenge = first.server->Take(first.client->Begin());
  const std::string proof = first.client->Take(challenge.answer).answer;
  const auto second = MakeServerEnd(MakeToken('7'), MakeNonce(3));
  (void)second->Take(first.client->Begin());
  EXPECT_EQ(second->Take(proof).next, Next::kFailed);
}

TEST(Handshake, ARepeatedChallengeIsRefusedByAClientWithOtherRandomBytes) {
  Pair first;
  const HandshakeStep challenge = first.server->Take(first.client->Begin());
  const auto second = MakeClientEnd(MakeToken('7'), MakeNonce(4));
  EXPECT_EQ(second->Take(challenge.answer).next, Next::kFailed);
}

TEST(Handshake, AServersOwnMessageIsNoProof) {
  Pair pair;
  const HandshakeStep challenge = pair.server->Take(pair.client->Begin());
  const std::string mac = challenge.answer.substr(33);
  EXPECT_EQ(pair.server->Take("P" + mac).next, Next::kFailed);
}

TEST(Handshake, WaitsForWholeMessages) {
  Pair pair;
  const std::string hello = pair.client->Begin();
  for (size_t size = 0; size < hello.size(); ++size) {
    const HandshakeStep step = pair.server->Take(hello.substr(0, size));
    ASSERT_EQ(step.next, Next::kMore) << size;
    ASSERT_EQ(step.used, 0) << size;
    ASSERT_EQ(step.answer, "") << size;
  }
  const std::string challenge = pair.server->Take(hello).answer;
  for (size_t size = 0; size < challenge.size(); ++size) {
    ASSERT_EQ(pair.client->Take(challenge.substr(0, size)).used, 0) << size;
  }
  const std::string proof = pair.client->Take(challenge).answer;
  for (size_t size = 0; size < proof.size(); ++size) {
    ASSERT_EQ(pair.server->Take(proof.substr(0, size)).next, Next::kMore) << size;
  }
  EXPECT_EQ(pair.server->Take(proof).next, Next::kPassed);
}

// Each byte of a message counts: the random bytes, the version, the codes.
TEST(Handshake, NoChangedByteOfAnyMessagePasses) {
  for (int message = 0; message < 3; ++message) {
    for (size_t at = 0; at < HandshakeEnd::kLongestMessage; ++at) {
      Pair pair;
      auto pass = [&, number = 0](std::string text) mutable {
        if (number++ == message && at < text.size()) text[at] = static_cast<char>(text[at] ^ 1);
        return text;
      };
      const std::string hello = pair.client->Begin();
      if (message == 0 && at >= hello.size()) break;
      const HandshakeStep challenge = pair.server->Take(pass(hello));
      if (challenge.next == Next::kFailed) continue;
      const HandshakeStep proof = pair.client->Take(pass(challenge.answer));
      if (proof.next == Next::kFailed) continue;
      if (message == 2 && at >= proof.answer.size()) break;
      EXPECT_EQ(pair.server->Take(pass(proof.answer)).next, Next::kFailed)
          << "message " << message << ", byte " << at;
    }
  }
}

TEST(Handshake, MoreThanAMessageIsRefused) {
  Pair pair;
  EXPECT_EQ(pair.server->Take(pair.client->Begin() + "x").next, Next::kFailed);
  Pair second;
  const std::string challenge = second.server->Take(second.client->Begin()).answer;
  EXPECT_EQ(second.client->Take(challenge + "A").next, Next::kFailed);
}

TEST(Handshake, AnotherVersionIsNamedOnBothEnds) {
  Pair pair;
  std::string hello = pair.client->Begin();
  hello[6] = 9;
  const HandshakeStep refused = pair.server->Take(hello);
  EXPECT_EQ(refused.error.what, "is of another version");
  EXPECT_EQ(pair.client->Take(refused.answer).error.title, "ANOTHER VERSION");
}

TEST(Handshake, WhereThereIsNoTokenTheClientSaysSo) {
  Pair pair;
  EXPECT_EQ(pair.client->Take(std::string("R\1\1", 3)).error.title, "NO TOKEN THERE");
}

TEST(Handshake, AnotherProtocolIsWorthAFurtherAttempt) {
  Pair pair;
  const HandshakeStep step = pair.client->Take("HTTP/1.1 400 Bad Request");
  EXPECT_EQ(step.next, Next::kFailed);
  EXPECT_NE(step.error.code, Code::kRendezvous);
}

TEST(Handshake, RandomBytesDiffer) {
  EXPECT_NE(RandomNonce(), RandomNonce());
}

}  // namespace
}  // namespace ddprun::rendezvous
