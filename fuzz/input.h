// Takes a fuzzer's input apart: bytes in, small choices out. At the end of the input everything is
// zero or empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/store/wire.h"

namespace ddprun::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

  std::string_view Bytes(size_t count) {
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

  std::string_view Rest() { return Bytes(rest_.size()); }

  // Returns one of five keys, so that requests meet.
  std::string Key() { return std::string(1, static_cast<char>('a' + Byte() % 5)); }

  // A number in words that ADD reads, or not, or a few bytes.
  std::string Value() {
    constexpr std::string_view kWords[] = {"", "0", "-7", " 12abc", "9223372036854775807", "x"};
    const uint8_t choice = Byte();
    if (choice < 2 * std::size(kWords)) return std::string(kWords[choice / 2]);
    return std::string(Bytes(choice % 32));
  }

  rendezvous::Request Request() {
    rendezvous::Request request;
    request.op = static_cast<rendezvous::Op>(Byte() % 0x13);
    request.nonce = request.op == rendezvous::Op::kValidate ? rendezvous::kValidateMagic : 7;
    request.number = static_cast<int8_t>(Byte());
    request.key = Key();
    request.value = Value();
    request.expected = Value();
    for (size_t count = Byte() % 5; count > 0; --count) {
      request.keys.push_back(Key());
      request.values.push_back(Value());
    }
    return request;
  }

 private:
  std::string_view rest_;
};

// Ends the process: the fuzzer keeps the input.
inline void Require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace ddprun::fuzz
