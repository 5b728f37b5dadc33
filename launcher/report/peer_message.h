// What one node's agent tells the others when its part of the job has failed: one line of JSON in
// the rendezvous' failure message.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// The worker that failed first, for the other nodes' reports.
struct PeerWorker {
  std::string host;
  std::string time = {};     // as in FailureReport
  WorkerRecord record = {};  // ranks, pid, exit, last lines, the error file's text, evidence
};

struct PeerMessage {
  int exit_code = 1;  // what ddprun exits with on every node
  std::string text;   // "rank 3 (local_rank: 1, pid: 812) on node1 exited with code 7"
  std::optional<PeerWorker> worker = {};
};

// At most kMaxPeerMessageBytes: last lines are cut, then left out.
constexpr size_t kMaxPeerMessageBytes = 16 * 1024;
std::string EncodePeerMessage(const PeerMessage& message);

// Any other text (a torchrun node's, or the rendezvous' own) is taken as it is, with exit code 1.
PeerMessage DecodePeerMessage(std::string_view text);

}  // namespace ddprun::launcher
