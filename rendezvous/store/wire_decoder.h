// Reads TCPStore frames from bytes that arrive in any segmentation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

// The largest message that a peer may send; beyond it the connection is closed. These limits are
// never below those of torch's server (libuv): keys of 8 KiB, values of 8 MiB and 131072 keys.
struct WireLimits {
  size_t max_key_bytes = 64 << 10;
  size_t max_value_bytes = 64 << 20;
  size_t max_keys = 131072;
  size_t max_message_bytes = 128 << 20;
};

// Base of the two decoders. Holds at most the bytes received, so that a large announced length
// costs no memory.
class FrameDecoder {
 public:
  // Returns how many bytes of an incomplete frame it holds, with the strings' own size.
  size_t held_bytes() const { return held_bytes_; }

 protected:
  explicit FrameDecoder(WireLimits limits) : limits_(limits) {}

  // Takes bytes off the front of `input` until the integer or string is complete (true) or the
  // input is empty (false).
  template <typename Integer>
  bool TakeInteger(std::string_view& input, Integer& out);
  Result<bool> TakeString(std::string_view& input, size_t max_bytes, std::string& out);
  Result<bool> TakeCount(std::string_view& input, uint64_t& out);
  // Forgets the parts of an incomplete frame.
  void Restart();

  const WireLimits limits_;
  size_t message_bytes_ = 0;  // announced strings of the current frame
  size_t held_bytes_ = 0;

 private:
  bool TakeScalar(std::string_view& input, size_t size);

  char scalar_[8] = {};
  size_t scalar_filled_ = 0;
  bool have_length_ = false;
  uint64_t length_ = 0;
};

// Server side. One thread.
class RequestDecoder : public FrameDecoder {
 public:
  explicit RequestDecoder(WireLimits limits = {}) : FrameDecoder(limits) {}

  // Takes bytes off the front of `input` up to the end of one request, sets `request` and returns
  // true. Returns false if it has used up the input and needs more. After an Error the decoder is
  // unusable.
  Result<bool> Next(std::string_view& input, Request& request);

 private:
  Result<bool> TakeField(std::string_view& input);
  Result<bool> TakeList(std::string_view& input, bool pairs);

  Request current_;
  std::string_view fields_;  // the fields still to come, a letter for each
  bool have_op_ = false;
  bool have_count_ = false;
  bool in_key_ = false;      // in a list: the last key is incomplete
  bool need_value_ = false;  // in a pair: the value is still to come
  uint64_t count_ = 0;
};

// Client side. One thread.
class ReplyDecoder : public FrameDecoder {
 public:
  explicit ReplyDecoder(WireLimits limits = {.max_value_bytes = kMaxReplyBytes,
                                             .max_message_bytes = kMaxReplyBytes})
      : FrameDecoder(limits) {}

  // Prepares for the reply to a request of `op` with `n_keys` keys. Forgets an earlier reply.
  void Expect(Op op, size_t n_keys);
  // Does for replies what RequestDecoder::Next() does for requests.
  Result<bool> Next(std::string_view& input, Reply& reply);

 private:
  Result<bool> TakeAll(std::string_view& input);
  Result<bool> TakeValues(std::string_view& input);

  Reply current_;
  size_t n_values_ = 0;
  bool have_number_ = false;
  bool in_value_ = false;  // the last value is incomplete
};

}  // namespace ddprun::rendezvous
