// The frames of c10d's TCPStore protocol (torch 2.11, TCPStoreBackend.hpp; BARRIER is from a later
// version). Messages have no length around them, integers are in host byte order, and a string is
// its length (u64) and its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
// Limit for all values or keys of one reply together, for ddprun's servers and clients.
inline constexpr size_t kMaxReplyBytes = 256 << 20;

// A request. The op decides which fields count; the others keep their defaults.
struct Request {
  Op op = Op::kPing;
  uint32_t nonce = 0;                    // kPing; the magic of kValidate
  int64_t number = 0;                    // kAdd: delta; kBarrier: world size
  std::string key = {};                  // every op with one key
  std::string expected = {};             // kCompareSet
  std::string value = {};                // kSet, kAppend, kQueuePush; kCompareSet: desired
  std::vector<std::string> keys = {};    // kCheck, kWait, kMultiGet, kMultiSet
  std::vector<std::string> values = {};  // kMultiSet, as many as keys
};

inline Request KeyRequest(Op op, std::string key, std::string value = {}) {
  return {.op = op, .key = std::move(key), .value = std::move(value)};
}

inline Request KeysRequest(Op op, std::vector<std::string> keys) {
  return {.op = op, .keys = std::move(keys)};
}

// Which ops have which form of reply. kNone: all ops not named here.
// kStatus: kCheck, kWait, kCancelWait, kBarrier. kNonce: kPing. kNumber: kAdd, kGetNumKeys,
// kDeleteKey, kQueueLen. kValue: kGet, kCompareSet. kValues: kMultiGet. kNumberAndValue:
// kQueuePop (the value only when number > 0). kList: kListKeys.
enum class ReplyForm { kNone, kStatus, kNonce, kNumber, kValue, kValues, kNumberAndValue, kList };

struct Reply {
  ReplyForm form = ReplyForm::kNone;
  uint8_t status = 0;
  uint32_t nonce = 0;
  int64_t number = 0;
  std::vector<std::string> values = {};  // one for kValue and kNumberAndValue
};

// Returns the form of the server's answer to `op`; kNone means that it has no answer.
ReplyForm FormOfReply(Op op);

// Returns the fields of a request's body, a letter for each: m magic or nonce, k key, v value,
// e expected value, n number, K list of keys, P list of (key, value) pairs. nullopt means that
// there is no such request.
std::optional<std::string_view> FieldsOf(Op op);

void EncodeRequest(const Request& request, std::string& out);
void EncodeReply(const Reply& reply, std::string& out);

}  // namespace ddprun::rendezvous
