#include "trainer/comm/net/transport_errors.h"

namespace ddprun::trainer {

namespace {

std::string Name(int peer) {
  return peer < 0 ? "another node" : "rank " + std::to_string(peer);
}

}  // namespace

Error MessageTooLong(int rank, int peer) {
  const std::string own = "rank " + std::to_string(rank);
  return Error{.title = "MISMATCHED MESSAGE",
               .where = own,
               .what = "A message from " + Name(peer) + " is longer than " + own + " expected.",
               .hint = "Sender and receiver must agree on the tensor's shape and type.",
               .page = "mismatched-message"};
}

Error ConnectionToRankLost(int rank, int peer, bool receives, const std::string& why) {
  return Error{
      .title = "CONNECTION TO A RANK LOST",
      .where = "rank " + std::to_string(rank),
      .what = (receives ? "Receiving from " : "Sending to ") + Name(peer) + " failed: " + why + ".",
      .hint = "Look at the log of " + Name(peer) + "; its process may have ended.",
      .page = "connection-to-a-rank-lost"};
}

}  // namespace ddprun::trainer
