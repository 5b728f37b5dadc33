#include "rendezvous/rank_json.h"

#include <nlohmann/json.hpp>

#include "base/untrusted_json.h"

namespace ddprun::rendezvous {

namespace {

using Json = nlohmann::json;

// A number of workers or ranks that another process wrote; nullopt unless it makes sense.
std::optional<int> ReadCount(const Json& value) {
  constexpr int64_t kMost = 1 << 24;
  if (!value.is_number_integer()) return std::nullopt;
  const auto number = value.get<int64_t>();
  if (number < 0 || number > kMost) return std::nullopt;
  return static_cast<int>(number);
}

}  // namespace

std::string ToJson(const RoleInfo& info) {
  const Json json = {
      {"role", info.role}, {"rank", info.node_rank}, {"local_world_size", info.local_world_size}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::optional<RoleInfo> ParseRoleInfo(std::string_view json) {
  const Json parsed = ParseUntrustedJson(json);
  if (!parsed.is_object() || !parsed.contains("role") || !parsed["role"].is_string() ||
      !parsed.contains("rank") || !parsed.contains("local_world_size")) {
    return std::nullopt;
  }
  const auto rank = ReadCount(parsed["rank"]);
  const auto size = ReadCount(parsed["local_world_size"]);
  if (!rank || !size) return std::nullopt;
  return RoleInfo{parsed["role"].get<std::string>(), *rank, *size};
}

std::string ToJson(const AssignedRanks& ranks) {
  return Json{ranks.base_rank, ranks.world_size, ranks.role_base_rank, ranks.role_world_size}
      .dump();
}

std::optional<AssignedRanks> ParseAssignedRanks(std::string_view json) {
  const Json parsed = ParseUntrustedJson(json);
  if (!parsed.is_array() || parsed.size() != 4) return std::nullopt;
  int numbers[4];
  for (size_t i = 0; i < 4; ++i) {
    const auto number = ReadCount(parsed[i]);
    if (!number) return std::nullopt;
    numbers[i] = *number;
  }
  return AssignedRanks{numbers[0], numbers[1], numbers[2], numbers[3]};
}

}  // namespace ddprun::rendezvous
