// The textbook algorithms for an all-reduce, to be measured beside the default. They work in shared
// memory: a rank "sends" by letting its neighbour read.
#pragma once

#include "trainer/comm/node_meeting.h"

namespace ddprun::trainer {

// Returns whether the ranks of a node reduce by AllReducePiece().
bool IsTextbook(AllReduceAlgorithm algorithm);

// All-reduces the piece of the operation's data from `begin`, which is in place on all ranks.
// REQUIRES: IsTextbook(algorithm).
Status AllReducePiece(AllReduceAlgorithm algorithm,
                      NodeMeeting& ranks,
                      const NodeOperation& operation,
                      size_t begin,
                      size_t bytes);

}  // namespace ddprun::trainer
