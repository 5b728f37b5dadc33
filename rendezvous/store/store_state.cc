#include "rendezvous/store/store_state.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

namespace ddprun::rendezvous {

namespace {

Error Refused(const std::string& what) {
  return {.title = "STORE REQUEST REFUSED", .what = what, .page = "store-protocol"};
}

Reply StatusReply(uint8_t status) {
  return {.form = ReplyForm::kStatus, .status = status};
}

Reply NumberReply(int64_t number) {
  return {.form = ReplyForm::kNumber, .number = number};
}

Reply ValueReply(std::string value) {
  Reply reply{.form = ReplyForm::kValue};
  reply.values.push_back(std::move(value));
  return reply;
}

// Ignores leading blanks and trailing text, because torch's ADD uses strtoll, too.
std::optional<int64_t> ParseCounter(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || errno == ERANGE) return std::nullopt;
  return number;
}

void StopWaiting(const std::vector<ConnectionId>& woken, std::vector<OutgoingReply>& replies) {
  for (const ConnectionId connection : woken) {
    replies.push_back({connection, StatusReply(kStopWaiting)});
  }
}

}  // namespace

Status StoreState::Handle(ConnectionId from, Request request, Replies& replies) {
  switch (request.op) {
    case Op::kValidate:
      return {};
    case Op::kSet:
      return Put(request.key, std::move(request.value), replies);
    case Op::kAppend:
      return Append(request, replies);
    case Op::kCompareSet:
      return CompareSet(from, request, replies);
    case Op::kAdd: {
      DDPRUN_ASSIGN(const int64_t sum, AddTo(request.key, request.number, replies));
      replies.push_back({from, NumberReply(sum)});
      return {};
    }
    case Op::kDeleteKey:
      replies.push_back({from, NumberReply(Erase(request.key) ? 1 : 0)});
      return {};
    case Op::kMultiSet:
      for (size_t i = 0; i < request.keys.size(); ++i) {
        DDPRUN_TRY(Put(request.keys[i], std::move(request.values[i]), replies));
      }
      return {};
    case Op::kGet: {
      // A missing key reads as "", as in torch's libuv server. Clients wait for the key first.
      const auto found = values_.find(request.key);
      replies.push_back({from, ValueReply(found == values_.end() ? "" : found->second)});
      return {};
    }
    case Op::kCheck: {
      const bool all =
          std::ranges::all_of(request.keys, [this](const auto& key) { return Exists(key); });
      replies.push_back({from, StatusReply(all ? kCheckReady : kCheckNotReady)});
      return {};
    }
    case Op::kMultiGet:
      return MultiGet(from, request, replies);
    case Op::kGetNumKeys:
      replies.push_back({from, NumberReply(static_cast<int64_t>(values_.size()))});
      return {};
    case Op::kListKeys:
      return ListKeys(from, replies);
    case Op::kPing:
      replies.push_back({from, {.form = ReplyForm::kNonce, .nonce = request.nonce}});
      return {};
    case Op::kQueuePush:
    case Op::kQueuePop:
    case Op::kQueueLen:
      return HandleQueue(from, request, replies);
    case Op::kWait:
      return Wait(from, request, replies);
    case Op::kBarrier:
      return Barrier(from, request, replies);
    case Op::kCancelWait:
      // Answers even if the client does not wait, because the end of its wait and the cancellation
      // may have crossed on the way.
      waits_.Remove(from);
      replies.push_back({from, StatusReply(kWaitCanceled)});
      return {};
  }
  return Refused("There is no such request.");
}

Status StoreState::HandleQueue(ConnectionId from, Request& request, Replies& replies) {
  if (request.op == Op::kQueuePush) {
    DDPRUN_TRY(Reserve(1, request.key.size() + request.value.size()));
    total_bytes_ += request.key.size() + request.value.size();
    ++queue_elements_;
    queues_[request.key].push_back(std::move(request.value));
    std::vector<ConnectionId> woken;
    waits_.ArrivedForOne(request.key, woken);
    StopWaiting(woken, replies);
    return {};
  }
  const auto found = queues_.find(request.key);
  Reply reply =
      NumberReply(found == queues_.end() ? 0 : static_cast<int64_t>(found->second.size()));
  if (request.op == Op::kQueuePop) {
    reply.form = ReplyForm::kNumberAndValue;
    if (found != queues_.end()) {
      total_bytes_ -= request.key.size() + found->second.front().size();
      --queue_elements_;
      reply.values.push_back(std::move(found->second.front()));
      found->second.pop_front();
      if (found->second.empty()) queues_.erase(found);
    }
  }
  replies.push_back({from, std::move(reply)});
  return {};
}

Status StoreState::Wait(ConnectionId from, Request& request, Replies& replies) {
  if (waits_.contains(from)) return Refused("A second WAIT while the first is unanswered.");
  std::erase_if(request.keys, [this](const std::string& key) { return Exists(key); });
  if (request.keys.empty()) {
    replies.push_back({from, StatusReply(kStopWaiting)});
    return {};
  }
  DDPRUN_TRY(Reserve(0, WaitTable::CostOf(request.keys)));
  waits_.Park(from, std::move(request.keys));
  return {};
}

Status StoreState::Barrier(ConnectionId from, const Request& request, Replies& replies) {
  if (waits_.contains(from)) return Refused("A BARRIER while a WAIT is unanswered.");
  DDPRUN_TRY(Reserve(0, WaitTable::CostOf({request.key})));
  DDPRUN_ASSIGN(const int64_t count, AddTo(request.key, 1, replies));
  if (count < request.number) {
    waits_.ParkAtBarrier(from, request.key);
    return {};
  }
  std::vector<ConnectionId> woken = {from};
  waits_.OpenBarrier(request.key, woken);
  StopWaiting(woken, replies);
  return {};
}

Status StoreState::CompareSet(ConnectionId from, Request& request, Replies& replies) {
  const auto found = values_.find(request.key);
  if (found == values_.end() && !request.expected.empty()) {
    // Stores nothing and returns what the caller expected, because torch elastic relies on it.
    replies.push_back({from, ValueReply(std::move(request.expected))});
    return {};
  }
  if (found != values_.end() && found->second != request.expected) {
    replies.push_back({from, ValueReply(found->second)});
    return {};
  }
  DDPRUN_TRY(Put(request.key, request.value, replies));
  replies.push_back({from, ValueReply(std::move(request.value))});
  return {};
}

Status StoreState::MultiGet(ConnectionId from, const Request& request, Replies& replies) {
  Reply reply{.form = ReplyForm::kValues};
  size_t bytes = 0;
  for (const std::string& key : request.keys) {
    const auto found = values_.find(key);
    if (found != values_.end()) bytes += found->second.size();
    if (bytes > limits_.max_reply_bytes) return Refused("The answer would be too large.");
    reply.values.push_back(found == values_.end() ? "" : found->second);
  }
  replies.push_back({from, std::move(reply)});
  return {};
}

Status StoreState::ListKeys(ConnectionId from, Replies& replies) const {
  Reply reply{.form = ReplyForm::kList};
  size_t bytes = 0;
  for (const auto& [key, value] : values_) {
    bytes += key.size();
    if (bytes > limits_.max_reply_bytes) return Refused("The answer would be too large.");
    reply.values.push_back(key);
  }
  replies.push_back({from, std::move(reply)});
  return {};
}

Status StoreState::Append(Request& request, Replies& replies) {
  const auto found = values_.find(request.key);
  if (found == values_.end()) return Put(request.key, std::move(request.value), replies);
  if (found->second.size() + request.value.size() > limits_.max_reply_bytes) {
    return Refused("The value would be too large to be read.");
  }
  DDPRUN_TRY(Reserve(0, request.value.size()));
  total_bytes_ += request.value.size();
  found->second += request.value;
  return {};
}

Result<int64_t> StoreState::AddTo(const std::string& key, int64_t delta, Replies& replies) {
  const auto found = values_.find(key);
  const auto before =
      found == values_.end() ? std::optional<int64_t>(0) : ParseCounter(found->second);
  if (!before) return Refused("ADD to \"" + key + "\", whose value is no number.");
  // Torch wraps around, too. Unsigned arithmetic makes the overflow defined.
  const auto sum =
      static_cast<int64_t>(static_cast<uint64_t>(*before) + static_cast<uint64_t>(delta));
  DDPRUN_TRY(Put(key, std::to_string(sum), replies));
  return sum;
}

Status StoreState::Put(const std::string& key, std::string value, Replies& replies) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    DDPRUN_TRY(Reserve(1, key.size() + value.size()));
    total_bytes_ += key.size() + value.size();
    values_.emplace(key, std::move(value));
  } else {
    DDPRUN_TRY(Reserve(0, value.size()));
    total_bytes_ += value.size();
    total_bytes_ -= found->second.size();
    found->second = std::move(value);
  }
  std::vector<ConnectionId> woken;
  waits_.Arrived(key, woken);
  StopWaiting(woken, replies);
  return {};
}

bool StoreState::Erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  total_bytes_ -= key.size() + found->second.size();
  values_.erase(found);
  return true;
}

Status StoreState::Reserve(size_t entries, size_t bytes) const {
  if (values_.size() + queue_elements_ + entries > limits_.max_entries) {
    return Refused("The store is full: " + std::to_string(limits_.max_entries) + " entries.");
  }
  if (total_bytes() + bytes > limits_.max_total_bytes) {
    return Refused("The store is full: " + std::to_string(limits_.max_total_bytes) + " bytes.");
  }
  return {};
}

bool StoreState::Exists(const std::string& key) const {
  return values_.contains(key) || queues_.contains(key);
}

}  // namespace ddprun::rendezvous
