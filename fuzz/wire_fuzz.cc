// The decoders of both sides: any bytes in any segmentation give the same frames, memory stays
// bounded by what was received, and what was decoded encodes to the bytes it came from.
#include <string>
#include <vector>

#include "fuzz/input.h"
#include "rendezvous/store/wire_decoder.h"

namespace ddprun::fuzz {
namespace {

using rendezvous::Op;
using rendezvous::WireLimits;

constexpr WireLimits kLimits = {
    .max_key_bytes = 64, .max_value_bytes = 256, .max_keys = 16, .max_message_bytes = 1024};
// A string and an element of a vector that has doubled.
constexpr size_t kBytesPerString = 2 * sizeof(std::string);

struct Decoded {
  std::string encoded;  // the requests decoded, encoded again
  size_t consumed = 0;
  bool refused = false;
};

Decoded DecodeRequests(std::string_view bytes, size_t segment) {
  Decoded decoded;
  rendezvous::RequestDecoder decoder(kLimits);
  for (size_t begin = 0; begin < bytes.size(); begin += segment) {
    const std::string_view whole = bytes.substr(begin, segment);
    std::string_view input = whole;
    while (!input.empty()) {
      rendezvous::Request request;
      const auto complete = decoder.Next(input, request);
      if (!complete.has_value()) {
        decoded.refused = true;
        return decoded;
      }
      Require(decoder.held_bytes() <= (begin + segment) * kBytesPerString);
      if (!*complete) {
        Require(input.empty());
        break;
      }
      rendezvous::EncodeRequest(request, decoded.encoded);
      decoded.consumed = begin + (whole.size() - input.size());
    }
  }
  return decoded;
}

void CheckRequests(std::string_view bytes, size_t segment) {
  const Decoded at_once = DecodeRequests(bytes, bytes.size() + 1);
  const Decoded in_parts = DecodeRequests(bytes, segment);
  Require(at_once.encoded == in_parts.encoded);
  Require(at_once.refused == in_parts.refused);
  Require(at_once.encoded == bytes.substr(0, at_once.consumed));
}

// Decodes `bytes` as the reply of a hostile server.
void CheckReply(Op op, size_t n_keys, std::string_view bytes, size_t segment) {
  rendezvous::ReplyDecoder decoder(kLimits);
  decoder.Expect(op, n_keys);
  const std::string_view all = bytes;
  for (size_t begin = 0; begin < all.size(); begin += segment) {
    std::string_view input = all.substr(begin, segment);
    const size_t before = input.size();
    rendezvous::Reply reply;
    const auto complete = decoder.Next(input, reply);
    if (!complete.has_value()) return;
    Require(decoder.held_bytes() <= (begin + segment) * kBytesPerString);
    if (!*complete) continue;
    std::string encoded;
    rendezvous::EncodeReply(reply, encoded);
    Require(encoded == all.substr(0, begin + before - input.size()));
    return;
  }
}

}  // namespace
}  // namespace ddprun::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddprun;
  fuzz::Input input(data, size);
  const uint8_t choice = input.Byte();
  const size_t segment = 1 + input.Byte() % 16;
  const auto op = static_cast<rendezvous::Op>(choice % 0x13);
  if (choice < 0x80) {
    fuzz::CheckReply(op, input.Byte() % 4, input.Rest(), segment);
  } else if (choice < 0xC0) {
    fuzz::CheckRequests(input.Rest(), segment);
  } else {
    std::string bytes;
    while (!input.empty()) rendezvous::EncodeRequest(input.Request(), bytes);
    fuzz::CheckRequests(bytes, segment);
  }
  return 0;
}
