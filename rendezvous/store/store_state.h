// The TCPStore server's behaviour without sockets, threads or clock: takes requests of numbered
// connections and returns replies. It behaves like torch 2.11. Where torch's two servers differ, it
// takes the more sensible behaviour (tests name the cases).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "rendezvous/store/wait_table.h"
#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

struct OutgoingReply {
  ConnectionId to = 0;
  Reply reply;
};

struct StoreLimits {
  size_t max_total_bytes = size_t{1} << 30;  // keys, values, queue elements and waits together
  size_t max_entries = size_t{1} << 22;      // keys and queue elements together
  // Needed because one MULTI_GET may name a large value many times, and APPEND makes large ones.
  size_t max_reply_bytes = kMaxReplyBytes;
};

class StoreState {
 public:
  explicit StoreState(StoreLimits limits = {}) : limits_(limits) {}

  // Appends the replies that the request causes, to its sender and to connections that it wakes.
  // If it returns an Error, the caller sends these replies and closes the sender's connection,
  // because the protocol has no other way to refuse. Ignores kValidate, which the session handles.
  Status Handle(ConnectionId from, Request request, std::vector<OutgoingReply>& replies);

  void Disconnect(ConnectionId connection) { waits_.Remove(connection); }

  const WaitTable& waits() const { return waits_; }
  size_t num_keys() const { return values_.size(); }
  size_t num_queue_elements() const { return queue_elements_; }
  // The bytes that count for max_total_bytes.
  size_t total_bytes() const { return total_bytes_ + waits_.cost_bytes(); }

 private:
  using Replies = std::vector<OutgoingReply>;

  Status HandleQueue(ConnectionId from, Request& request, Replies& replies);
  Status Wait(ConnectionId from, Request& request, Replies& replies);
  Status Barrier(ConnectionId from, const Request& request, Replies& replies);
  Status CompareSet(ConnectionId from, Request& request, Replies& replies);
  Status MultiGet(ConnectionId from, const Request& request, Replies& replies);
  Status ListKeys(ConnectionId from, Replies& replies) const;
  Status Append(Request& request, Replies& replies);
  Result<int64_t> AddTo(const std::string& key, int64_t delta, Replies& replies);
  Status Put(const std::string& key, std::string value, Replies& replies);
  bool Erase(const std::string& key);
  Status Reserve(size_t entries, size_t bytes) const;
  bool Exists(const std::string& key) const;

  const StoreLimits limits_;
  size_t total_bytes_ = 0;  // without the waits
  size_t queue_elements_ = 0;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // none is empty
  WaitTable waits_;
};

}  // namespace ddprun::rendezvous
