#include "launcher/report/peer_message.h"

#include <nlohmann/json.hpp>

namespace ddprun::launcher {

using nlohmann::json;

std::string EncodePeerMessage(const PeerMessage& message) {
  const json document = {{"exit_code", message.exit_code}, {"text", message.text}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

PeerMessage DecodePeerMessage(std::string_view text) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool ours = document.is_object() && document.contains("exit_code") &&
                    document["exit_code"].is_number_integer() && document.contains("text") &&
                    document["text"].is_string();
  if (!ours) return PeerMessage{1, std::string(text)};
  const int code = document["exit_code"].get<int>();
  // 0 would report success for a job that failed.
  return PeerMessage{code >= 1 && code <= 255 ? code : 1, document["text"].get<std::string>()};
}

}  // namespace ddprun::launcher
