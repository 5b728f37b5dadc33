#include "rendezvous/store/wire.h"

#include <array>
#include <cstring>
#include <optional>

namespace ddprun::rendezvous {

namespace {

struct Frame {
  std::string_view fields;  // see FieldsOf()
  ReplyForm reply;
};

// One frame for every Op, in the order of Op.
constexpr std::array<Frame, 0x13> kFrames = {{
    {"m", ReplyForm::kNone},            // kValidate
    {"kv", ReplyForm::kNone},           // kSet
    {"kev", ReplyForm::kValue},         // kCompareSet
    {"k", ReplyForm::kValue},           // kGet
    {"kn", ReplyForm::kNumber},         // kAdd
    {"K", ReplyForm::kStatus},          // kCheck
    {"K", ReplyForm::kStatus},          // kWait
    {"", ReplyForm::kNumber},           // kGetNumKeys
    {"k", ReplyForm::kNumber},          // kDeleteKey
    {"kv", ReplyForm::kNone},           // kAppend
    {"K", ReplyForm::kValues},          // kMultiGet
    {"P", ReplyForm::kNone},            // kMultiSet
    {"", ReplyForm::kStatus},           // kCancelWait
    {"m", ReplyForm::kNonce},           // kPing
    {"kv", ReplyForm::kNone},           // kQueuePush
    {"k", ReplyForm::kNumberAndValue},  // kQueuePop
    {"k", ReplyForm::kNumber},          // kQueueLen
    {"", ReplyForm::kList},             // kListKeys
    {"kn", ReplyForm::kStatus},         // kBarrier
}};

template <typename Integer>
void PutInteger(Integer value, std::string& out) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void PutString(std::string_view text, std::string& out) {
  PutInteger<uint64_t>(text.size(), out);
  out.append(text);
}

}  // namespace

std::optional<std::string_view> FieldsOf(Op op) {
  const size_t index = static_cast<size_t>(op);
  return index < kFrames.size() ? std::optional(kFrames[index].fields) : std::nullopt;
}

ReplyForm FormOfReply(Op op) {
  const size_t index = static_cast<size_t>(op);
  return index < kFrames.size() ? kFrames[index].reply : ReplyForm::kNone;
}

void EncodeRequest(const Request& request, std::string& out) {
  out.push_back(static_cast<char>(request.op));
  for (const char field : FieldsOf(request.op).value_or("")) {
    switch (field) {
      case 'm':
        PutInteger(request.nonce, out);
        break;
      case 'k':
        PutString(request.key, out);
        break;
      case 'e':
        PutString(request.expected, out);
        break;
      case 'v':
        PutString(request.value, out);
        break;
      case 'n':
        PutInteger(request.number, out);
        break;
      default:
        PutInteger<uint64_t>(request.keys.size(), out);
        for (size_t i = 0; i < request.keys.size(); ++i) {
          PutString(request.keys[i], out);
          if (field == 'P') PutString(request.values[i], out);
        }
    }
  }
}

void EncodeReply(const Reply& reply, std::string& out) {
  switch (reply.form) {
    case ReplyForm::kNone:
      return;
    case ReplyForm::kStatus:
      PutInteger(reply.status, out);
      return;
    case ReplyForm::kNonce:
      PutInteger(reply.nonce, out);
      return;
    case ReplyForm::kNumber:
    case ReplyForm::kNumberAndValue:
      PutInteger(reply.number, out);
      break;
    case ReplyForm::kList:
      PutInteger<int64_t>(static_cast<int64_t>(reply.values.size()), out);
      break;
    case ReplyForm::kValue:
    case ReplyForm::kValues:
      break;
  }
  for (const std::string& value : reply.values) PutString(value, out);
}

}  // namespace ddprun::rendezvous
