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

// `ddprun store` without a question: runs a server.
struct StoreServeOptions {
  std::string host;  // "" means every address of this machine
  uint16_t port = 29400;
};

// `ddprun store get KEY`: one question to a server.
struct StoreQueryOptions {
  enum class Verb { kGet, kSet, kWait, kList, kDelete, kStatus };
  Verb verb = Verb::kStatus;
  rendezvous::HostPort endpoint;
  std::optional<std::chrono::milliseconds> timeout;  // nullopt: kGet does not wait, kWait forever
  std::vector<std::string> keys;                     // Python's names, without a "/" before
  std::string value;                                 // kSet
};

struct StoreHelp {
  std::string text;
};

using StoreOptions = std::variant<StoreServeOptions, StoreQueryOptions, StoreHelp>;

// `args` are the words after "store". Errors are kUsage.
Result<StoreOptions> ParseStoreOptions(const std::vector<std::string>& args,
                                       const Environment& env);

}  // namespace ddprun::launcher
