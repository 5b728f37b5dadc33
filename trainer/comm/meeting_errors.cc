#include "trainer/comm/meeting_errors.h"

#include "base/text.h"

namespace ddprun::trainer {

Error RankLost(int rank, int lost, const std::string& before) {
  return Error{.code = Code::kRankLost,
               .title = "RANK LOST",
               .where = "rank " + std::to_string(rank),
               .what = "Rank " + std::to_string(lost) + " ended before it came to " + before + ".",
               .hint = "Only a step of training is done again with another process in its place.",
               .page = "rank-lost"};
}

Error MismatchedCollectives(int rank,
                            const OperationHeader& own,
                            int other,
                            const OperationHeader& theirs) {
  const std::string self = std::to_string(rank);
  return Error{.title = "MISMATCHED COLLECTIVES",
               .where = "rank " + self,
               .what = "Rank " + self + " is at " + Describe(own) + ",\nbut rank " +
                       std::to_string(other) + " is at " + Describe(theirs) + ".",
               .hint =
                   "All ranks must call the same collectives, in the same order, with "
                   "tensors of the same size and type.",
               .page = "mismatched-collectives"};
}

Error CollectiveTimedOut(int rank,
                         const NodeOperation& operation,
                         std::span<const int> missing,
                         std::span<const int> present) {
  const std::string where = operation.recording.StepAndBucket();
  return Error{.code = Code::kDeadlineExceeded,
               .title = "COLLECTIVE TIMED OUT",
               .where = "rank " + std::to_string(rank),
               .what = "These ranks did not come to " + Describe(operation.header) +
                       (where.empty() ? "" : " of " + where) +
                       " in time: " + FormatList(missing, ", ") +
                       ".\nThese are waiting in it: " + FormatList(present, ", ") + ".",
               .hint =
                   "Look at the log of the missing ranks. If they are only slow, raise "
                   "comm.train_timeout_seconds.",
               .page = "collective-timed-out"};
}

Error CollectiveCancelled(int rank, const NodeOperation& operation) {
  return Error{
      .title = "COLLECTIVE CANCELLED",
      .where = "rank " + std::to_string(rank),
      .what = "This process gave up while it waited in " + Describe(operation.header) + ".",
      .page = "collective-cancelled"};
}

}  // namespace ddprun::trainer
