// The exchange by which two ends show each other that they have the same token, without sending it:
//
//   client: hello      "DDPRUN", version, 32 random bytes
//   server: challenge  'C', 32 random bytes, MAC of "ddprun server", hello and these bytes
//   client: proof      'P', MAC of "ddprun client", hello and challenge
//   server: 'A'
//
// Each MAC is an HMAC-SHA256 with the token as its key. The random bytes of both ends are in it, so
// an old message is of no use, and the labels differ, so an end's own message is of no use either.
// Instead of its next message, an end may refuse: 'R', reason, version. Pure.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include <ddprun/error.h>
#include "rendezvous/secure/token.h"

namespace ddprun::rendezvous {

using Nonce = std::array<unsigned char, 32>;
Nonce RandomNonce();

// The outcome of a message.
struct HandshakeStep {
  enum class Next { kMore, kPassed, kFailed };

  Next next = Next::kMore;
  size_t used = 0;          // bytes of the input; 0 with kMore means that the message is not whole
  std::string answer = {};  // to send, also with kFailed
  // kFailed. On the client, the Error for the user, without its place. On the server, `what` says
  // of the client what is wrong ("has another token").
  Error error = {};
};

// One end of the exchange. No message is longer than kLongestMessage.
class HandshakeEnd {
 public:
  static constexpr size_t kLongestMessage = 65;

  virtual ~HandshakeEnd() = default;
  // Returns the message with which this end begins; "" for a server.
  virtual std::string Begin() const = 0;
  // Looks at the bytes that have come and were not used yet.
  virtual HandshakeStep Take(std::string_view received) = 0;
  // Returns what to say if the other end closes the connection instead of its next message.
  virtual Error Closed() const = 0;
};

std::unique_ptr<HandshakeEnd> MakeClientEnd(const Token& token, const Nonce& nonce);
std::unique_ptr<HandshakeEnd> MakeServerEnd(const Token& token, const Nonce& nonce);

}  // namespace ddprun::rendezvous
