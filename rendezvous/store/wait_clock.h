// Measures how long connections wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <unordered_map>

#include "rendezvous/store/wait_table.h"
#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

// Remembers since when each connection waits. Torch's client cancels its wait every 10 s and
// repeats it, so a wait for the same keys continues the wait before. Pure: callers give the time.
class WaitClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Note {
    size_t hash = 0;  // of the keys
    Time since;
  };

  static size_t HashOf(const Request& request);

  void Parked(ConnectionId connection, size_t hash, Time now) {
    const auto [note, is_new] = notes_.try_emplace(connection);
    if (is_new || note->second.hash != hash) note->second = {hash, now};
  }
  // The connection's wait has ended, or the connection is gone.
  void Forget(ConnectionId connection) { notes_.erase(connection); }

  // Returns the notes of waits that are open or cancelled.
  const std::unordered_map<ConnectionId, Note>& notes() const { return notes_; }

 private:
  std::unordered_map<ConnectionId, Note> notes_;
};

inline size_t WaitClock::HashOf(const Request& request) {
  size_t hash = std::hash<std::string>()(request.key);
  for (const std::string& key : request.keys) hash = hash * 31 + std::hash<std::string>()(key);
  return hash;
}

}  // namespace ddprun::rendezvous
