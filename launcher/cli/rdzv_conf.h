// --rdzv_endpoint and --rdzv_conf: what they may say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

struct EndpointText {
  std::string host;
  std::optional<uint16_t> port;
};

// "host", "host:port", "[::1]:port", "[::1]" or "::1"; nothing for other texts.
std::optional<EndpointText> ParseEndpoint(std::string_view text);

// "k=v,k=v" into `out`; false when a key or a value is missing.
bool SplitRdzvConf(std::string_view text, std::map<std::string, std::string>& out);

// Refuses keys that nobody knows and values of the wrong kind. Takes out of `conf` the keys that
// only etcd has, with a line for the user in `notes`.
Status CheckRdzvConf(std::map<std::string, std::string>& conf, std::vector<std::string>& notes);

}  // namespace ddprun::launcher
