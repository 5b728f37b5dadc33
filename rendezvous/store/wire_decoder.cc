#include "rendezvous/store/wire_decoder.h"

#include <algorithm>
#include <cstring>

namespace ddprun::rendezvous {

namespace {

Error Malformed(const std::string& what) {
  return {.title = "MALFORMED STORE MESSAGE",
          .what = what,
          .hint = "Something that is no TCPStore peer talks to this port.",
          .page = "store-protocol"};
}

}  // namespace

bool FrameDecoder::TakeScalar(std::string_view& input, size_t size) {
  const size_t taken = std::min(size - scalar_filled_, input.size());
  std::memcpy(scalar_ + scalar_filled_, input.data(), taken);
  input.remove_prefix(taken);
  scalar_filled_ += taken;
  return scalar_filled_ == size;
}

template <typename Integer>
bool FrameDecoder::TakeInteger(std::string_view& input, Integer& out) {
  if (!TakeScalar(input, sizeof out)) return false;
  std::memcpy(&out, scalar_, sizeof out);
  scalar_filled_ = 0;
  return true;
}

Result<bool> FrameDecoder::TakeString(std::string_view& input, size_t max_bytes, std::string& out) {
  if (!have_length_) {
    if (!TakeInteger(input, length_)) return false;
    if (length_ > max_bytes) {
      return Malformed("A string of " + std::to_string(length_) + " bytes; at most " +
                       std::to_string(max_bytes) + " are accepted.");
    }
    message_bytes_ += length_;
    if (message_bytes_ > limits_.max_message_bytes) {
      return Malformed("A message of more than " + std::to_string(limits_.max_message_bytes) +
                       " bytes.");
    }
    have_length_ = true;
    held_bytes_ += sizeof out;
    out.clear();
  }
  const size_t taken = std::min<size_t>(length_ - out.size(), input.size());
  out.append(input.substr(0, taken));
  held_bytes_ += taken;
  input.remove_prefix(taken);
  if (out.size() < length_) return false;
  have_length_ = false;
  return true;
}

Result<bool> FrameDecoder::TakeCount(std::string_view& input, uint64_t& out) {
  if (!TakeInteger(input, out)) return false;
  if (out <= limits_.max_keys) return true;
  return Malformed("A list of " + std::to_string(out) + " keys; at most " +
                   std::to_string(limits_.max_keys) + " are accepted.");
}

void FrameDecoder::Restart() {
  message_bytes_ = 0;
  held_bytes_ = 0;
  scalar_filled_ = 0;
  have_length_ = false;
}

Result<bool> RequestDecoder::TakeList(std::string_view& input, bool pairs) {
  if (!have_count_) {
    DDPRUN_ASSIGN(const bool complete, TakeCount(input, count_));
    if (!complete) return false;
    have_count_ = true;
    need_value_ = false;
  }
  while (need_value_ || current_.keys.size() < count_ || in_key_) {
    if (!need_value_) {
      if (!in_key_) current_.keys.emplace_back();
      in_key_ = true;
      DDPRUN_ASSIGN(const bool complete,
                    TakeString(input, limits_.max_key_bytes, current_.keys.back()));
      if (!complete) return false;
      in_key_ = false;
      if (!pairs) continue;
      current_.values.emplace_back();
      need_value_ = true;
    }
    DDPRUN_ASSIGN(const bool complete,
                  TakeString(input, limits_.max_value_bytes, current_.values.back()));
    if (!complete) return false;
    need_value_ = false;
  }
  have_count_ = false;
  return true;
}

Result<bool> RequestDecoder::TakeField(std::string_view& input) {
  switch (fields_.front()) {
    case 'm':
      return TakeInteger(input, current_.nonce);
    case 'n':
      return TakeInteger(input, current_.number);
    case 'k':
      return TakeString(input, limits_.max_key_bytes, current_.key);
    case 'e':
      return TakeString(input, limits_.max_value_bytes, current_.expected);
    case 'v':
      return TakeString(input, limits_.max_value_bytes, current_.value);
    default:
      return TakeList(input, fields_.front() == 'P');
  }
}

Result<bool> RequestDecoder::Next(std::string_view& input, Request& request) {
  if (!have_op_) {
    uint8_t op = 0;
    if (!TakeInteger(input, op)) return false;
    const auto fields = FieldsOf(static_cast<Op>(op));
    if (!fields) return Malformed("There is no request number " + std::to_string(op) + ".");
    current_ = Request();
    current_.op = static_cast<Op>(op);
    fields_ = *fields;
    have_op_ = true;
    message_bytes_ = 0;
  }
  while (!fields_.empty()) {
    DDPRUN_ASSIGN(const bool complete, TakeField(input));
    if (!complete) return false;
    fields_.remove_prefix(1);
  }
  have_op_ = false;
  held_bytes_ = 0;
  request = std::move(current_);
  return true;
}

void ReplyDecoder::Expect(Op op, size_t n_keys) {
  current_ = Reply();
  current_.form = FormOfReply(op);
  n_values_ = current_.form == ReplyForm::kValue ? 1 : n_keys;
  have_number_ = false;
  in_value_ = false;
  Restart();
}

Result<bool> ReplyDecoder::TakeValues(std::string_view& input) {
  while (in_value_ || current_.values.size() < n_values_) {
    if (!in_value_) current_.values.emplace_back();
    in_value_ = true;
    DDPRUN_ASSIGN(const bool complete,
                  TakeString(input, limits_.max_value_bytes, current_.values.back()));
    if (!complete) return false;
    in_value_ = false;
  }
  return true;
}

Result<bool> ReplyDecoder::TakeAll(std::string_view& input) {
  switch (current_.form) {
    case ReplyForm::kNone:
      return true;
    case ReplyForm::kStatus:
      return TakeInteger(input, current_.status);
    case ReplyForm::kNonce:
      return TakeInteger(input, current_.nonce);
    case ReplyForm::kNumber:
      return TakeInteger(input, current_.number);
    case ReplyForm::kValue:
    case ReplyForm::kValues:
      return TakeValues(input);
    case ReplyForm::kNumberAndValue:
    case ReplyForm::kList:
      if (!have_number_) {
        if (!TakeInteger(input, current_.number)) return false;
        have_number_ = true;
        if (current_.form == ReplyForm::kNumberAndValue) n_values_ = current_.number > 0 ? 1 : 0;
        if (current_.form == ReplyForm::kList) {
          if (current_.number < 0) return Malformed("A list with a negative number of keys.");
          n_values_ = static_cast<size_t>(current_.number);
        }
      }
      return TakeValues(input);
  }
  return true;
}

Result<bool> ReplyDecoder::Next(std::string_view& input, Reply& reply) {
  DDPRUN_ASSIGN(const bool complete, TakeAll(input));
  if (complete) reply = std::move(current_);
  return complete;
}

}  // namespace ddprun::rendezvous
