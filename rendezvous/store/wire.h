// The frames of c10d's TCPStore protocol (torch 2.11, TCPStoreBackend.hpp; BARRIER from later):
// no lengths around messages, integers in host byte order, strings as u64 length + bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::rendezvous {

enum class Op : uint8_t {
  kValidate = 0x00,
  kSet = 0x01,
  kCompareSet = 0x02,
  kGet = 0x03,
  kAdd = 0x04,
  kCheck = 0x05,
  kWait = 0x06,
  kGetNumKeys = 0x07,
  kDeleteKey = 0x08,
  kAppend = 0x09,
  kMultiGet = 0x0A,
  kMultiSet = 0x0B,
  kCancelWait = 0x0C,
  kPing = 0x0D,
  kQueuePush = 0x0E,
  kQueuePop = 0x0F,
  kQueueLen = 0x10,
  kListKeys = 0x11,
  kBarrier = 0x12,
};

inline constexpr uint32_t kValidateMagic = 0x3C85F7CE;
inline constexpr uint8_t kCheckReady = 0;
inline constexpr uint8_t kCheckNotReady = 1;
inline constexpr uint8_t kStopWaiting = 0;
inline constexpr uint8_t kWaitCanceled = 1;

// Which fields count depends on the op; the others keep their defaults.
struct Request {
  Op op = Op::kPing;
  uint32_t nonce = 0;               // kPing; the magic of kValidate
  int64_t number = 0;               // kAdd: delta; kBarrier: world size
  std::string key;                  // every op with one key
  std::string expected;             // kCompareSet
  std::string value;                // kSet, kAppend, kQueuePush; kCompareSet: desired
  std::vector<std::string> keys;    // kCheck, kWait, kMultiGet, kMultiSet
  std::vector<std::string> values;  // kMultiSet, as many as keys
};

// kStatus: kCheck, kWait, kCancelWait, kBarrier. kNonce: kPing. kNumber: kAdd, kGetNumKeys,
// kDeleteKey, kQueueLen. kValue: kGet, kCompareSet. kValues: kMultiGet. kNumberAndValue:
// kQueuePop (the value only when number > 0). kList: kListKeys.
enum class ReplyForm { kNone, kStatus, kNonce, kNumber, kValue, kValues, kNumberAndValue, kList };

struct Reply {
  ReplyForm form = ReplyForm::kNone;
  uint8_t status = 0;
  uint32_t nonce = 0;
  int64_t number = 0;
  std::vector<std::string> values;  // one for kValue and kNumberAndValue
};

// What a peer may ask for; beyond it the connection is closed. Torch's own server (libuv) allows
// keys of 8 KiB, values of 8 MiB and 131072 keys; these are never below.
struct WireLimits {
  size_t max_key_bytes = 64 << 10;
  size_t max_value_bytes = 64 << 20;
  size_t max_keys = 131072;
  size_t max_message_bytes = 128 << 20;
};

// The form of the server's answer to `op`; kNone for requests without one.
ReplyForm FormOfReply(Op op);

void EncodeRequest(const Request& request, std::string& out);
void EncodeReply(const Reply& reply, std::string& out);

// Reads one frame after the other from bytes that arrive in any segmentation. Holds at most the
// bytes received, so a large announced length costs nothing. Base of the two decoders.
class FrameDecoder {
 protected:
  explicit FrameDecoder(WireLimits limits) : limits_(limits) {}

  // Takes bytes off the front of `input` until the integer or string is complete (true) or the
  // input is empty (false).
  template <typename Integer>
  bool TakeInteger(std::string_view& input, Integer& out);
  Result<bool> TakeString(std::string_view& input, size_t max_bytes, std::string& out);
  Result<bool> TakeCount(std::string_view& input, uint64_t& out);

  const WireLimits limits_;
  size_t message_bytes_ = 0;  // announced strings of the current frame

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

  // Takes bytes off the front of `input` up to the end of one request: true, and `request` is
  // it. False: the input is used up and more is needed. After an Error the decoder is unusable.
  Result<bool> Next(std::string_view& input, Request& request);

 private:
  Result<bool> TakeField(std::string_view& input);
  Result<bool> TakeList(std::string_view& input, bool pairs);

  Request current_;
  std::string_view fields_;  // those still to come, one letter each
  bool have_op_ = false;
  bool have_count_ = false;
  bool in_key_ = false;      // of a list: its last key is incomplete
  bool need_value_ = false;  // of a pair: its value is to come
  uint64_t count_ = 0;
};

// Client side. One thread.
class ReplyDecoder : public FrameDecoder {
 public:
  explicit ReplyDecoder(WireLimits limits = {}) : FrameDecoder(limits) {}

  // Begins the reply to a request of `op` with `n_keys` keys.
  void Expect(Op op, size_t n_keys);
  // As RequestDecoder::Next.
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
