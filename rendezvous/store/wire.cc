#include "rendezvous/store/wire.h"

#include <cstring>
#include <optional>

namespace ddprun::rendezvous {

namespace {

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
  switch (op) {
    case Op::kValidate:
    case Op::kPing:
      return "m";
    case Op::kSet:
    case Op::kAppend:
    case Op::kQueuePush:
      return "kv";
    case Op::kCompareSet:
      return "kev";
    case Op::kGet:
    case Op::kDeleteKey:
    case Op::kQueuePop:
    case Op::kQueueLen:
      return "k";
    case Op::kAdd:
    case Op::kBarrier:
      return "kn";
    case Op::kCheck:
    case Op::kWait:
    case Op::kMultiGet:
      return "K";
    case Op::kMultiSet:
      return "P";
    case Op::kGetNumKeys:
    case Op::kCancelWait:
    case Op::kListKeys:
      return "";
  }
  return std::nullopt;
}

ReplyForm FormOfReply(Op op) {
  switch (op) {
    case Op::kCheck:
    case Op::kWait:
    case Op::kCancelWait:
    case Op::kBarrier:
      return ReplyForm::kStatus;
    case Op::kPing:
      return ReplyForm::kNonce;
    case Op::kAdd:
    case Op::kGetNumKeys:
    case Op::kDeleteKey:
    case Op::kQueueLen:
      return ReplyForm::kNumber;
    case Op::kGet:
    case Op::kCompareSet:
      return ReplyForm::kValue;
    case Op::kMultiGet:
      return ReplyForm::kValues;
    case Op::kQueuePop:
      return ReplyForm::kNumberAndValue;
    case Op::kListKeys:
      return ReplyForm::kList;
    case Op::kValidate:
    case Op::kSet:
    case Op::kAppend:
    case Op::kMultiSet:
    case Op::kQueuePush:
      return ReplyForm::kNone;
  }
  return ReplyForm::kNone;
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
