// What a store server can tell about itself, and its text, by which `ddprun store status` asks any
// server of ddprun's, a running job's too.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::rendezvous {

// A GET of this key gives the text below. No TCPStore client can store such a key, nor read it by
// accident: theirs begin with "/".
inline constexpr std::string_view kStatusKey = "ddprun/status";

// Of a wait, what is told: the first keys and how many there are.
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
  size_t buffered_bytes = 0;  // received in part, or not yet taken by their receivers
  size_t num_waits = 0;
  std::vector<WaitStatus> waits = {};  // the longest first, not more than some
};

inline constexpr size_t kMostWaitsTold = 1000;
inline constexpr size_t kMostKeysTold = 8;

// JSON; keys and addresses with bytes that are no UTF-8 are told with replacement characters.
std::string ToText(const StoreStatus& status);
// The error (page "no-store-status") says that the text is none of ours.
Result<StoreStatus> ParseStoreStatus(std::string_view text);

}  // namespace ddprun::rendezvous
