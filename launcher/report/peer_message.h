// What one node's agent tells the others when its part of the job has failed: one line of JSON in
// the rendezvous' failure message.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

struct PeerMessage {
  int exit_code = 1;  // what ddprun exits with on every node
  std::string text;   // "rank 3 (local_rank: 1, pid: 812) on node1 exited with code 7"
};

std::string EncodePeerMessage(const PeerMessage& message);
// Any other text (a torchrun node's, or the rendezvous' own) is taken as it is, with exit code 1.
PeerMessage DecodePeerMessage(std::string_view text);

}  // namespace ddprun::launcher
