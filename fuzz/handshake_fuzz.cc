// Handshakes with a peer that does not have the token. It sends anything, in pieces: no end lets it
// pass, keeps more bytes than a message has, or uses bytes that it did not get. A right handshake,
// in pieces, passes.
#include "fuzz/input.h"
#include "rendezvous/secure/handshake.h"

namespace ddprun::fuzz {
namespace {

using namespace rendezvous;
using Next = HandshakeStep::Next;

Token TheToken() {
  static const Token token = *Token::FromText(std::string(2 * Token::kBytes, '7'));
  return token;
}

Nonce SomeNonce(uint8_t byte) {
  Nonce nonce;
  nonce.fill(byte);
  return nonce;
}

// Feeds pieces of what the fuzzer says, sometimes behind what a right peer would send.
void TalkToStranger(HandshakeEnd& end, Input& input) {
  std::string received;
  while (!input.empty()) {
    received += input.Bytes(1 + input.Byte() % 80);
    while (true) {
      const HandshakeStep step = end.Take(received);
      Require(step.next != Next::kPassed);
      Require(step.used <= received.size());
      Require(step.answer.size() <= HandshakeEnd::kLongestMessage);
      if (step.next == Next::kFailed) return;
      // An end that waits has not got a whole message, so it keeps less than one.
      if (step.used == 0) break;
      received.erase(0, step.used);
    }
    Require(received.size() < HandshakeEnd::kLongestMessage);
  }
}

// Gives `end` a message of its peer in pieces; returns its answer.
HandshakeStep InPieces(HandshakeEnd& end, const std::string& message, Input& input) {
  for (size_t size = input.Byte() % message.size(); size < message.size();
       size += 1 + input.Byte()) {
    const HandshakeStep step = end.Take(std::string_view(message).substr(0, size));
    Require(step.next == Next::kMore && step.used == 0 && step.answer.empty());
  }
  HandshakeStep step = end.Take(message);
  Require(step.used == message.size());
  return step;
}

void PassInPieces(Input& input) {
  const auto client = MakeClientEnd(TheToken(), SomeNonce(input.Byte()));
  const auto server = MakeServerEnd(TheToken(), SomeNonce(input.Byte()));
  const HandshakeStep challenge = InPieces(*server, client->Begin(), input);
  const HandshakeStep proof = InPieces(*client, challenge.answer, input);
  const HandshakeStep accepted = InPieces(*server, proof.answer, input);
  Require(accepted.next == Next::kPassed);
  Require(InPieces(*client, accepted.answer, input).next == Next::kPassed);
}

}  // namespace
}  // namespace ddprun::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddprun::fuzz;
  using namespace ddprun::rendezvous;
  Input input(data, size);
  const uint8_t choice = input.Byte();
  if (choice % 4 == 0) {
    PassInPieces(input);
  } else if (choice % 4 == 1) {
    TalkToStranger(*MakeClientEnd(TheToken(), SomeNonce(choice)), input);
  } else {
    const auto server = MakeServerEnd(TheToken(), SomeNonce(choice));
    // Past the hello, so that the fuzzer reaches the proof.
    if (choice % 4 == 3) {
      (void)server->Take(MakeClientEnd(TheToken(), SomeNonce(choice))->Begin());
    }
    TalkToStranger(*server, input);
  }
  return 0;
}
