// The command line of `ddprun store`.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "rendezvous/net/address.h"

namespace ddprun::launcher {

// `ddprun store`: a server.
struct StoreServeOptions {
  std::string host;  // empty: every address of this machine
  uint16_t port = 29400;
};

// `ddprun store get KEY` and the like: one question to a server.
struct StoreAskOptions {
  enum class Verb { kGet, kSet, kWait, kList, kDelete, kStatus };
  Verb verb = Verb::kStatus;
  rendezvous::HostPort endpoint;
  std::optional<std::chrono::milliseconds> timeout;  // unset: get does not wait, wait for ever
  std::vector<std::string> keys;                     // as Python's clients name them, no "/" before
  std::string value;                                 // kSet
};

struct StoreHelp {
  std::string text;
};

using StoreOptions = std::variant<StoreServeOptions, StoreAskOptions, StoreHelp>;

// `args` after "store". Errors are kUsage.
Result<StoreOptions> ParseStoreOptions(const std::vector<std::string>& args,
                                       const Environment& env);

}  // namespace ddprun::launcher
