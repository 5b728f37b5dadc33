// Who waits for which keys. Made for thousands of connections that wait for thousands of keys
// each: a key's text is kept once, and a connection has a pointer to it.
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
  // How waiting for such keys counts in cost_bytes(), whether they are known already or not.
  static size_t CostOf(const std::vector<std::string>& keys);

  // REQUIRES: the connection is not parked; keys is not empty. Duplicates count once.
  void Park(ConnectionId connection, std::vector<std::string> keys);
  void ParkAtBarrier(ConnectionId connection, const std::string& key);
  // No longer waiting, whatever it waited for; nothing if it did not wait.
  void Remove(ConnectionId connection);

  // The key is there. Appends those who now lack nothing more, the longest waiting first; they
  // are not parked any more.
  void Arrived(const std::string& key, std::vector<ConnectionId>& woken);
  // As Arrived, but for no more connections than it takes to wake one: an element of a queue.
  void ArrivedForOne(const std::string& key, std::vector<ConnectionId>& woken);
  void OpenBarrier(const std::string& key, std::vector<ConnectionId>& woken);

  bool contains(ConnectionId connection) const { return parked_.contains(connection); }
  bool at_barrier(ConnectionId connection) const;
  // What it still lacks, sorted, the first of it; empty when it is not parked.
  std::vector<std::string> Missing(ConnectionId connection, size_t most = SIZE_MAX) const;
  size_t NumMissing(ConnectionId connection) const;
  // Whether anybody still waits for it.
  bool IsAwaited(const std::string& key) const {
    const auto found = keys_.find(key);
    return found != keys_.end() && !found->second.places.empty();
  }
  size_t num_parked() const { return parked_.size(); }
  size_t num_keys() const { return keys_.size() + barriers_.size(); }
  size_t cost_bytes() const { return cost_bytes_; }

 private:
  struct Place {
    uint64_t ticket;  // ascending: places are sorted by it
    ConnectionId connection;
  };
  struct Waiters {
    std::vector<Place> places;
    size_t references = 0;  // of parked connections, those that have got the key included
  };
  using Keys = std::unordered_map<std::string, Waiters>;  // its nodes stay where they are
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
