#include "rendezvous/secure/handshake.h"

#include <sodium.h>

#include <algorithm>

#include "rendezvous/net/gate.h"

namespace ddprun::rendezvous {

namespace {

using Next = HandshakeStep::Next;

constexpr std::string_view kName = "DDPRUN";
constexpr char kVersion = 1;
constexpr std::string_view kServerLabel = "ddprun server";
constexpr std::string_view kClientLabel = "ddprun client";
constexpr size_t kMacBytes = crypto_auth_hmacsha256_BYTES;
constexpr size_t kHelloBytes = kName.size() + 1 + sizeof(Nonce);
constexpr size_t kChallengeBytes = 1 + sizeof(Nonce) + kMacBytes;
constexpr size_t kProofBytes = 1 + kMacBytes;
constexpr size_t kRefusalBytes = 3;
static_assert(kName.front() == Gate::kFirstByte);
static_assert(kChallengeBytes == HandshakeEnd::kLongestMessage);

enum class Reason : char { kNoToken = 1, kOtherToken = 2, kOtherVersion = 3 };

std::string Refusal(Reason reason) {
  return {'R', static_cast<char>(reason), kVersion};
}

std::string TextOf(const Nonce& nonce) {
  return {reinterpret_cast<const char*>(nonce.data()), nonce.size()};
}

std::string MacOf(const Token& token, std::string_view label, const std::string& messages) {
  static_assert(crypto_auth_hmacsha256_KEYBYTES == Token::kBytes);
  const std::string text = std::string(label) + messages;
  std::string mac(kMacBytes, '\0');
  ::crypto_auth_hmacsha256(reinterpret_cast<unsigned char*>(mac.data()),
                           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                           token.data());
  return mac;
}

// Takes the same time for any two texts of one length.
bool SameMac(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

HandshakeStep Failed(Error error, std::string answer = {}) {
  return {.next = Next::kFailed, .answer = std::move(answer), .error = std::move(error)};
}

Error TokensDiffer() {
  return {.code = Code::kRendezvous,
          .title = "ANOTHER TOKEN",
          .what = "This node and the node there have different tokens, so they are not of one job.",
          .hint =
              "Give all nodes of the job the same DDPRUN_TOKEN_FILE or DDPRUN_TOKEN. If the "
              "node there is of another job, choose another port.",
          .page = "token"};
}

Error NoTokenThere() {
  return {.code = Code::kRendezvous,
          .title = "NO TOKEN THERE",
          .what = "This node has a token, and the node there was started without one.",
          .hint = "Give all nodes of the job the same DDPRUN_TOKEN_FILE or DDPRUN_TOKEN, or none.",
          .page = "token"};
}

Error VersionsDiffer() {
  return {.code = Code::kRendezvous,
          .title = "ANOTHER VERSION",
          .what = "ddprun on this node and on the node there check tokens in different ways.",
          .hint = "Install the same version of ddprun on all nodes.",
          .page = "token"};
}

Error NotTheProtocol() {
  return {.what =
              "what listens there does not know ddprun's token, as torchrun or another program"};
}

Error OfClient(std::string what) {
  return {.what = std::move(what)};
}

Error MeaningOf(Reason reason) {
  if (reason == Reason::kNoToken) return NoTokenThere();
  return reason == Reason::kOtherVersion ? VersionsDiffer() : TokensDiffer();
}

class ClientEnd final : public HandshakeEnd {
 public:
  ClientEnd(const Token& token, const Nonce& nonce)
      : token_(token), hello_(std::string(kName) + kVersion + TextOf(nonce)) {}

  std::string Begin() const override { return hello_; }
  Error Closed() const override { return NotTheProtocol(); }

  HandshakeStep Take(std::string_view received) override {
    if (received.empty()) return {};
    if (received.front() == 'R') {
      if (received.size() < kRefusalBytes) return {};
      return Failed(MeaningOf(static_cast<Reason>(received[1])));
    }
    if (proven_) {
      if (received != "A") return Failed(NotTheProtocol());
      return {.next = Next::kPassed, .used = 1};
    }
    if (received.front() != 'C' || received.size() > kChallengeBytes) {
      return Failed(NotTheProtocol());
    }
    if (received.size() < kChallengeBytes) return {};
    const std::string challenge(received);
    const std::string nonce = challenge.substr(1, sizeof(Nonce));
    if (!SameMac(challenge.substr(1 + sizeof(Nonce)),
                 MacOf(token_, kServerLabel, hello_ + nonce))) {
      return Failed(TokensDiffer(), Refusal(Reason::kOtherToken));
    }
    proven_ = true;
    return {.used = kChallengeBytes,
            .answer = "P" + MacOf(token_, kClientLabel, hello_ + challenge)};
  }

 private:
  const Token token_;
  const std::string hello_;
  bool proven_ = false;
};

class ServerEnd final : public HandshakeEnd {
 public:
  ServerEnd(const Token& token, const Nonce& nonce) : token_(token), nonce_(TextOf(nonce)) {}

  std::string Begin() const override { return ""; }
  Error Closed() const override { return OfClient("ended the connection during the handshake"); }

  HandshakeStep Take(std::string_view received) override {
    return challenge_.empty() ? TakeHello(received) : TakeProof(received);
  }

 private:
  HandshakeStep TakeHello(std::string_view received) {
    const size_t known = std::min(received.size(), kName.size());
    if (received.substr(0, known) != kName.substr(0, known) || received.size() > kHelloBytes) {
      return Failed(OfClient("is no ddprun"));
    }
    if (received.size() > kName.size() && received[kName.size()] != kVersion) {
      return Failed(OfClient("is of another version"), Refusal(Reason::kOtherVersion));
    }
    if (received.size() < kHelloBytes) return {};
    hello_ = received;
    challenge_ = "C" + nonce_ + MacOf(token_, kServerLabel, hello_ + nonce_);
    return {.used = kHelloBytes, .answer = challenge_};
  }

  HandshakeStep TakeProof(std::string_view received) {
    if (received.empty()) return {};
    if (received.front() == 'R') return Failed(OfClient("has another token"));
    if (received.front() != 'P' || received.size() > kProofBytes) {
      return Failed(OfClient("is no ddprun"));
    }
    if (received.size() < kProofBytes) return {};
    if (!SameMac(received.substr(1), MacOf(token_, kClientLabel, hello_ + challenge_))) {
      return Failed(OfClient("has another token"), Refusal(Reason::kOtherToken));
    }
    return {.next = Next::kPassed, .used = kProofBytes, .answer = "A"};
  }

  const Token token_;
  const std::string nonce_;
  std::string hello_;
  std::string challenge_;
};

}  // namespace

Nonce RandomNonce() {
  Nonce nonce;
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::unique_ptr<HandshakeEnd> MakeClientEnd(const Token& token, const Nonce& nonce) {
  return std::make_unique<ClientEnd>(token, nonce);
}

std::unique_ptr<HandshakeEnd> MakeServerEnd(const Token& token, const Nonce& nonce) {
  return std::make_unique<ServerEnd>(token, nonce);
}

}  // namespace ddprun::rendezvous
