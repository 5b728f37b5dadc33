// The status of a store's server, and its text form. `ddprun store status` reads it from any server
// of ddprun's, also from a running job's.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::rendezvous {

// A GET of this key returns the text of ToText(). TCPStore clients neither store nor read this key
// by accident, because their keys begin with "/".
inline constexpr std::string_view kStatusKey = "ddprun/status";

// A client that waits: the first keys that it waits for, and their number.
struct WaitStatus {
  std::string peer;
  std::vector<std::string> keys;
  size_t num_keys = 0;
  bool barrier = false;
  std::chrono::milliseconds waited{0};
};

struct StoreStatus {
  size_t connections = 0;
  size_t keys = 0;
  size_t queue_elements = 0;
  size_t bytes = 0;           // keys, values, queue elements, waits
  size_t buffered_bytes = 0;  // requests received in part, and replies not taken
  size_t num_waits = 0;
  std::vector<WaitStatus> waits = {};  // the longest first, at most kMostWaitsTold
};

inline constexpr size_t kMostWaitsTold = 1000;
inline constexpr size_t kMostKeysTold = 8;

// Returns JSON. Replacement characters stand for bytes that are not UTF-8.
std::string ToText(const StoreStatus& status);
// Error: page "no-store-status" if the text is not from a server of ddprun's.
Result<StoreStatus> ParseStoreStatus(std::string_view text);

}  // namespace ddprun::rendezvous
