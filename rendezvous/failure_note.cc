#include "rendezvous/failure_note.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

namespace ddprun::rendezvous {

using Json = nlohmann::json;

namespace {

// In the order of RoundEnd::Kind.
constexpr std::array<const char*, 3> kKinds = {"failed", "restart", "regroup"};

}  // namespace

std::string ToJson(const RoundEnd& end) {
  const Json json = {{"node", end.node_rank},
                     {"kind", kKinds[static_cast<size_t>(end.kind)]},
                     {"message", end.message}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RoundEnd ParseFailureNote(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, false);
  const bool understood = parsed.is_object() && parsed.contains("node") &&
                          parsed["node"].is_number_integer() && parsed.contains("message") &&
                          parsed["message"].is_string();
  if (!understood) return {.node_rank = -1, .message = std::string(json)};
  RoundEnd end{.node_rank = parsed["node"].get<int>(),
               .message = parsed["message"].get<std::string>()};
  const auto kind = std::find(kKinds.begin(), kKinds.end(), parsed.value("kind", Json()));
  if (kind != kKinds.end()) end.kind = static_cast<RoundEnd::Kind>(kind - kKinds.begin());
  return end;
}

std::string MessageText(const std::string& message) {
  const Json parsed = Json::parse(message, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("text") || !parsed["text"].is_string()) {
    return message;
  }
  return parsed["text"].get<std::string>();
}

RoundEnd WithoutRestart(RoundEnd end) {
  constexpr const char* kReason =
      " (no restart: a node of this job runs torchrun, which cannot restart together with ddprun)";
  end.kind = RoundEnd::Kind::kJobFailed;
  Json message = Json::parse(end.message, nullptr, false);
  if (message.is_object() && message.contains("text") && message["text"].is_string()) {
    message["text"] = message["text"].get<std::string>() + kReason;
    end.message = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  } else {
    end.message += kReason;
  }
  return end;
}

}  // namespace ddprun::rendezvous
