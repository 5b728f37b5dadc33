#include "rendezvous/peer_json.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/untrusted_json.h"

namespace ddprun::rendezvous {

using Json = nlohmann::json;

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int64_t NumberOf(const Json& object, const char* key, int64_t fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : fallback;
}

int SmallOf(const Json& object, const char* key) {
  const int64_t value = NumberOf(object, key);
  return value >= 0 && value <= 1 << 30 ? static_cast<int>(value) : -1;
}

bool FlagOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

Json ToJson(const RoundEnd& end) {
  Json json = {{"node_rank", end.node_rank},
               {"kind", NameOf(end.kind)},
               {"message", end.message},
               {"exit_code", end.exit_code}};
  if (end.worker != nullptr) json["worker"] = *end.worker;
  return json;
}

RoundEnd RoundEndOf(const Json& json) {
  RoundEnd end{.node_rank = SmallOf(json, "node_rank"),
               .message = MakePrintable(TextOf(json, "message"))};
  const int code = SmallOf(json, "exit_code");
  if (code >= 1 && code <= 255) end.exit_code = code;
  for (const auto kind : {RoundEnd::Kind::kRestart, RoundEnd::Kind::kRegroup}) {
    if (TextOf(json, "kind") == NameOf(kind)) end.kind = kind;
  }
  const auto worker = json.find("worker");
  if (worker != json.end() && worker->is_object()) {
    end.worker = std::make_shared<const Json>(*worker);
  }
  return end;
}

std::string ToNote(const RoundEnd& end) {
  return ToJson(end).dump(-1, ' ', false, Json::error_handler_t::replace);
}

RoundEnd ParseNote(std::string_view note) {
  const Json json = ParseUntrustedJson(note);
  const bool understood = json.is_object() && json.contains("node_rank") &&
                          json.contains("message") && json["message"].is_string();
  if (!understood) return {.message = MakePrintable(note)};
  return RoundEndOf(json);
}

RoundEnd WithoutRestart(RoundEnd end) {
  end.kind = RoundEnd::Kind::kJobFailed;
  end.message +=
      " (no restart: a node of this job runs torchrun, which cannot restart together with ddprun)";
  return end;
}

}  // namespace ddprun::rendezvous
