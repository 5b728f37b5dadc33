#include "rendezvous/failure_note.h"

#include <nlohmann/json.hpp>

namespace ddprun::rendezvous {

using Json = nlohmann::json;

std::string ToJson(const PeerFailure& failure) {
  const Json json = {{"node", failure.node_rank}, {"message", failure.message}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

PeerFailure ParseFailureNote(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, false);
  const bool understood = parsed.is_object() && parsed.contains("node") &&
                          parsed["node"].is_number_integer() && parsed.contains("message") &&
                          parsed["message"].is_string();
  if (!understood) return {.node_rank = -1, .message = std::string(json)};
  return {.node_rank = parsed["node"].get<int>(), .message = parsed["message"].get<std::string>()};
}

}  // namespace ddprun::rendezvous
