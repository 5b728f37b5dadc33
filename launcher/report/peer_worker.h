// The message that a node's agent sends to other nodes about its first failed worker:
// RoundEnd::worker.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "launcher/report/worker_record.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

struct PeerWorker {
  std::string host;
  std::string time = {};     // see FailureReport::time
  WorkerRecord record = {};  // ranks, pid, exit, last lines, the error file's text, evidence
};

// The limit of ToJson(), which cuts lines and, if that is not enough, omits lines and error.
constexpr size_t kMaxPeerWorkerBytes = 16 * 1024;
std::shared_ptr<const nlohmann::json> ToJson(const PeerWorker& worker);

// Returns nullopt if `end` has no worker. Fields that are missing or of a wrong type get defaults.
// The text has no control characters.
std::optional<PeerWorker> WorkerOf(const rendezvous::RoundEnd& end);

}  // namespace ddprun::launcher
