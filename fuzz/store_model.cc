#include "fuzz/store_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddprun::fuzz {

using namespace rendezvous;

bool StoreModel::Perform(Client from, const Request& request) {
  switch (request.op) {
    case Op::kMultiSet:
      for (size_t i = 0; i < request.keys.size(); ++i) {
        const auto set = KeyRequest(Op::kSet, request.keys[i], request.values[i]);
        if (!PerformOnKey(set)) return false;
      }
      return true;
    case Op::kMultiGet:
      return MultiGet(from, request);
    case Op::kCheck:
      return AnswerStatus(from, Absent(request.keys).empty() ? kCheckReady : kCheckNotReady);
    case Op::kWait:
      if (Waits(from)) return false;
      waits_.push_back({from, Absent(request.keys), ""});
      return Wake();
    case Op::kBarrier:
      return Barrier(from, request);
    case Op::kCancelWait:
      Leave(from);
      return AnswerStatus(from, kWaitCanceled);
    case Op::kPing:
      return Answer(from, {.form = ReplyForm::kNonce, .nonce = request.nonce});
    case Op::kGetNumKeys:
      return Answer(from,
                    {.form = ReplyForm::kNumber, .number = static_cast<int64_t>(Names().size())});
    case Op::kListKeys:
      return Answer(from, {.form = ReplyForm::kList, .values = Names()});
    default: {
      // Whom the request wakes is told before its sender is answered, as in torch's server.
      const auto reply = PerformOnKey(request);
      return reply && Answer(from, *reply);
    }
  }
}

void StoreModel::Leave(Client client) {
  std::erase_if(waits_, [&](const Wait& wait) { return wait.client == client; });
}

std::optional<Reply> StoreModel::PerformOnKey(const Request& request) {
  const KeyModel before = keys_[request.key];
  KeyModel after = before;
  auto reply = after.Perform(request);
  if (!reply) return reply;
  keys_[request.key] = after;
  const bool too_long = request.op == Op::kAppend && after.value->size() > limits_.max_reply_bytes;
  if (too_long || NumEntries() > limits_.max_entries) {
    keys_[request.key] = before;
    return std::nullopt;
  }
  // A value is there for all who wait for it, an element for one of them.
  const bool pushed = after.queue.size() > before.queue.size();
  if (after.value || pushed) Came(request.key, !after.value);
  return reply;
}

void StoreModel::Came(const std::string& key, bool for_one) {
  for (Wait& wait : waits_) {
    if (wait.missing.erase(key) > 0 && wait.missing.empty() && for_one) break;
  }
  Wake();
}

// Ends the waits that lack nothing.
bool StoreModel::Wake() {
  for (auto wait = waits_.begin(); wait != waits_.end();) {
    const bool over = wait->missing.empty() && wait->barrier.empty();
    if (over) AnswerStatus(wait->client, kStopWaiting);
    wait = over ? waits_.erase(wait) : std::next(wait);
  }
  return true;
}

bool StoreModel::Barrier(Client from, const Request& request) {
  Request add = KeyRequest(Op::kAdd, request.key);
  add.number = 1;
  const auto count = Waits(from) ? std::nullopt : PerformOnKey(add);
  if (!count) return false;
  waits_.push_back({from, {}, request.key});
  if (count->number < request.number) return true;
  for (Wait& wait : waits_) {
    if (wait.barrier == request.key) wait.barrier.clear();
  }
  return Wake();
}

bool StoreModel::MultiGet(Client from, const Request& request) {
  Reply reply{.form = ReplyForm::kValues};
  size_t bytes = 0;
  for (const std::string& key : request.keys) {
    reply.values.push_back(keys_[key].value.value_or(""));
    bytes += reply.values.back().size();
  }
  return bytes <= limits_.max_reply_bytes && Answer(from, reply);
}

bool StoreModel::Answer(Client to, const Reply& reply) {
  if (reply.form != ReplyForm::kNone) answers_.emplace_back(to, reply);
  return true;
}

bool StoreModel::AnswerStatus(Client to, uint8_t status) {
  return Answer(to, {.form = ReplyForm::kStatus, .status = status});
}

bool StoreModel::Waits(Client client) const {
  return std::ranges::any_of(waits_, [&](const Wait& wait) { return wait.client == client; });
}

std::set<std::string> StoreModel::Absent(const std::vector<std::string>& keys) {
  std::set<std::string> absent;
  for (const std::string& key : keys) {
    if (!keys_[key].exists()) absent.insert(key);
  }
  return absent;
}

std::vector<std::string> StoreModel::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, key] : keys_) {
    if (key.value) names.push_back(name);
  }
  return names;
}

size_t StoreModel::NumEntries() const {
  size_t entries = Names().size();
  for (const auto& [name, key] : keys_) entries += key.queue.size();
  return entries;
}

}  // namespace ddprun::fuzz
