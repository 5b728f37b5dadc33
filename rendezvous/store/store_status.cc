#include "rendezvous/store/store_status.h"

#include <nlohmann/json.hpp>

#include "base/untrusted_json.h"

namespace ddprun::rendezvous {

namespace {

using Json = nlohmann::json;

Error NoStatus() {
  return {.title = "NO STATUS",
          .what = "The store did not answer with its status: it is not one of ddprun's.",
          .hint = "Torch's own servers have none. get, set, wait, list and delete work with them.",
          .page = "no-store-status"};
}

Json ToJson(const WaitStatus& wait) {
  return {{"peer", wait.peer},
          {"keys", wait.keys},
          {"num_keys", wait.num_keys},
          {"barrier", wait.barrier},
          {"waited_ms", wait.waited.count()}};
}

WaitStatus WaitOf(const Json& json) {
  WaitStatus wait;
  json.at("peer").get_to(wait.peer);
  json.at("keys").get_to(wait.keys);
  json.at("num_keys").get_to(wait.num_keys);
  json.at("barrier").get_to(wait.barrier);
  wait.waited = std::chrono::milliseconds(json.at("waited_ms").get<int64_t>());
  return wait;
}

}  // namespace

std::string ToText(const StoreStatus& status) {
  Json waits = Json::array();
  for (const WaitStatus& wait : status.waits) waits.push_back(ToJson(wait));
  const Json json = {{"connections", status.connections},
                     {"keys", status.keys},
                     {"queue_elements", status.queue_elements},
                     {"bytes", status.bytes},
                     {"buffered_bytes", status.buffered_bytes},
                     {"num_waits", status.num_waits},
                     {"waits", std::move(waits)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<StoreStatus> ParseStoreStatus(std::string_view text) {
  // Catches exceptions, because any field of another process's text may be missing or of another
  // type.
  try {
    const Json json = ParseUntrustedJson(text);
    StoreStatus status;
    json.at("connections").get_to(status.connections);
    json.at("keys").get_to(status.keys);
    json.at("queue_elements").get_to(status.queue_elements);
    json.at("bytes").get_to(status.bytes);
    json.at("buffered_bytes").get_to(status.buffered_bytes);
    json.at("num_waits").get_to(status.num_waits);
    for (const Json& wait : json.at("waits")) status.waits.push_back(WaitOf(wait));
    return status;
  } catch (const Json::exception&) {
    return NoStatus();
  }
}

}  // namespace ddprun::rendezvous
