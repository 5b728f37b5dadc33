// What one node's agent tells the others of the worker that failed first: RoundEnd::worker.
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
  std::string time = {};     // as in FailureReport
  WorkerRecord record = {};  // ranks, pid, exit, last lines, the error file's text, evidence
};

// At most kMaxPeerWorkerBytes as text: last lines are cut, then left out.
constexpr size_t kMaxPeerWorkerBytes = 16 * 1024;
std::shared_ptr<const nlohmann::json> ToJson(const PeerWorker& worker);

// Nothing when `end` tells of none. What is missing or of another type keeps its default; nothing
// in it is obeyed by a terminal.
std::optional<PeerWorker> WorkerOf(const rendezvous::RoundEnd& end);

}  // namespace ddprun::launcher
