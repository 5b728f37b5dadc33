// One key of a TCPStore as c10d's documentation describes it, for requests that come one after the
// other. It is plain and shares no code with StoreState, because tests and a fuzzer compare both.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

// Reads what strtoll reads: blanks, a sign, digits, and then anything.
inline std::optional<int64_t> NumberIn(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size()));
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

struct KeyModel {
  std::optional<std::string> value;
  std::deque<std::string> queue;

  bool exists() const { return value.has_value() || !queue.empty(); }
  auto operator<=>(const KeyModel&) const = default;

  // Performs a request that names this key alone. nullopt means that the store cannot answer it
  // now: a WAIT for an absent key stays open, and an ADD to a text is refused.
  std::optional<Reply> Perform(const Request& request) {
    switch (request.op) {
      case Op::kSet:
        value = request.value;
        return Reply();
      case Op::kAppend:
        value = value.value_or("") + request.value;
        return Reply();
      case Op::kCompareSet:
        if (value.value_or(request.expected) != request.expected) return Text(*value);
        if (!value && !request.expected.empty()) return Text(request.expected);
        value = request.value;
        return Text(*value);
      case Op::kGet:
        return Text(value.value_or(""));
      case Op::kAdd: {
        const auto before = NumberIn(value.value_or("0"));
        if (!before) return std::nullopt;
        // The sum wraps around.
        const auto sum = static_cast<uint64_t>(*before) + static_cast<uint64_t>(request.number);
        value = std::to_string(static_cast<int64_t>(sum));
        return Number(static_cast<int64_t>(sum));
      }
      case Op::kDeleteKey: {
        const bool was_there = value.has_value();
        value.reset();
        return Number(was_there ? 1 : 0);
      }
      case Op::kQueuePush:
        queue.push_back(request.value);
        return Reply();
      case Op::kQueueLen:
        return Number(static_cast<int64_t>(queue.size()));
      case Op::kQueuePop:
        return Pop();
      case Op::kCheck:
        return Reply{.form = ReplyForm::kStatus, .status = exists() ? kCheckReady : kCheckNotReady};
      case Op::kWait:
        if (!exists()) return std::nullopt;
        return Reply{.form = ReplyForm::kStatus, .status = kStopWaiting};
      default:
        return std::nullopt;
    }
  }

 private:
  static Reply Text(const std::string& text) {
    return {.form = ReplyForm::kValue, .values = {text}};
  }
  static Reply Number(int64_t number) { return {.form = ReplyForm::kNumber, .number = number}; }

  // The number is the length before.
  Reply Pop() {
    Reply reply = Number(static_cast<int64_t>(queue.size()));
    reply.form = ReplyForm::kNumberAndValue;
    if (queue.empty()) return reply;
    reply.values.push_back(queue.front());
    queue.pop_front();
    return reply;
  }
};

}  // namespace ddprun::rendezvous
