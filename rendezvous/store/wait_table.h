// Knows which connections wait for which keys. Thousands of connections may wait for thousands of
// keys each, so the table keeps a key's text once, and connections point to it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddprun::rendezvous {

using ConnectionId = uint64_t;

// Pure; one thread.
class WaitTable {
 public:
  // Returns what a wait for `keys` adds to cost_bytes() at most: a key that the table has costs
  // less.
  static size_t CostOf(const std::vector<std::string>& keys);

  // REQUIRES: the connection is not parked; keys is not empty. Duplicates count once.
  void Park(ConnectionId connection, std::vector<std::string> keys);
  void ParkAtBarrier(ConnectionId connection, const std::string& key);
  // Ends the connection's wait, if it waits.
  void Remove(ConnectionId connection);

  // The key exists now. Ends the waits of connections that lack no other key, and appends these
  // connections to `woken`, the longest waiting first.
  void Arrived(const std::string& key, std::vector<ConnectionId>& woken);
  // A queue has got an element. Does what Arrived() does, but stops when it has woken one
  // connection.
  void ArrivedForOne(const std::string& key, std::vector<ConnectionId>& woken);
  void OpenBarrier(const std::string& key, std::vector<ConnectionId>& woken);

  bool contains(ConnectionId connection) const { return parked_.contains(connection); }
  bool at_barrier(ConnectionId connection) const;
  // Returns the first keys, sorted, that the connection still lacks; empty if it does not wait.
  std::vector<std::string> Missing(ConnectionId connection, size_t most = SIZE_MAX) const;
  size_t NumMissing(ConnectionId connection) const;
  // Returns whether any connection still waits for the key.
  bool IsAwaited(const std::string& key) const {
    const auto found = keys_.find(key);
    return found != keys_.end() && !found->second.places.empty();
  }
  size_t num_parked() const { return parked_.size(); }
  size_t num_keys() const { return keys_.size() + barriers_.size(); }
  size_t cost_bytes() const { return cost_bytes_; }

 private:
  struct Place {
    uint64_t ticket;  // places are sorted by ticket, ascending
    ConnectionId connection;
  };
  struct Waiters {
    std::vector<Place> places;
    size_t references = 0;  // of waiting connections, also of those for which the key came
  };
  using Keys = std::unordered_map<std::string, Waiters>;  // its nodes do not move
  struct Parked {
    uint64_t ticket = 0;
    bool barrier = false;
    size_t missing = 0;
    std::vector<Keys::value_type*> keys;
  };

  void Add(Keys& keys, const std::string& key, ConnectionId connection, Parked& parked);
  bool Leave(ConnectionId connection);
  void Release(std::unordered_map<ConnectionId, Parked>::iterator parked);

  uint64_t next_ticket_ = 1;
  size_t cost_bytes_ = 0;
  Keys keys_;
  Keys barriers_;
  std::unordered_map<ConnectionId, Parked> parked_;
};

}  // namespace ddprun::rendezvous
