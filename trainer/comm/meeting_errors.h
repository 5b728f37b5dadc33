// The errors of ranks that do not meet in a collective. `rank` is the rank that reports the error.
#pragma once

#include <span>
#include <string>

#include <ddprun/error.h>
#include "trainer/comm/node_operation.h"

namespace ddprun::trainer {

// Returns the error (Code::kRankLost) of a wait for rank `lost`, killed before it came to `before`.
Error RankLost(int rank, int lost, const std::string& before);

// Returns the error of two ranks that began different operations.
Error MismatchedCollectives(int rank,
                            const OperationHeader& own,
                            int other,
                            const OperationHeader& theirs);

// Returns the error (Code::kDeadlineExceeded) of a wait for the ranks `missing`.
Error CollectiveTimedOut(int rank,
                         const NodeOperation& operation,
                         std::span<const int> missing,
                         std::span<const int> present);

// Returns the error of a wait that this process has ended.
Error CollectiveCancelled(int rank, const NodeOperation& operation);

}  // namespace ddprun::trainer
