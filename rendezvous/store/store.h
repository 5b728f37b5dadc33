// SEAM: the key-value store through which the processes of a job find each other, as a worker
// sees it. Keys and values are arbitrary bytes. Every call blocks at most until its deadline and
// then fails with kDeadlineExceeded. Implementations may be called from several threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rendezvous/net/socket.h"

namespace ddprun::rendezvous {

class Store {
 public:
  virtual ~Store() = default;

  // Stores the value. Returns when it is on its way: other processes may see it a little later,
  // later calls on this store see it at once.
  virtual Status Set(std::string_view key, std::string_view value, Deadline deadline) = 0;
  // Waits for the key, then gives its value.
  virtual Result<std::string> Get(std::string_view key, Deadline deadline) = 0;
  // Adds to a decimal counter (0 when absent) and gives the sum.
  virtual Result<int64_t> Add(std::string_view key, int64_t delta, Deadline deadline) = 0;
  // Replaces `expected` by `desired` (an empty `expected` also matches an absent key) and gives
  // the value afterwards. When the key is absent and `expected` is not empty nothing is stored
  // and `expected` comes back: torch's rule, on which torch elastic relies.
  virtual Result<std::string> CompareSet(std::string_view key,
                                         std::string_view expected,
                                         std::string_view desired,
                                         Deadline deadline) = 0;
  // Returns once all keys exist.
  virtual Status Wait(std::span<const std::string> keys, Deadline deadline) = 0;
  // Whether all keys exist now.
  virtual Result<bool> Check(std::span<const std::string> keys, Deadline deadline) = 0;
  // Whether the key existed.
  virtual Result<bool> Delete(std::string_view key, Deadline deadline) = 0;
  // Waits for all keys, then gives their values in that order, in one exchange.
  virtual Result<std::vector<std::string>> MultiGet(std::span<const std::string> keys,
                                                    Deadline deadline) = 0;
  // All pairs in one message. REQUIRES: as many values as keys.
  virtual Status MultiSet(std::span<const std::string> keys,
                          std::span<const std::string> values,
                          Deadline deadline) = 0;
  // Number of keys in the whole store, whatever the prefix.
  virtual Result<int64_t> NumKeys(Deadline deadline) = 0;
};

}  // namespace ddprun::rendezvous
