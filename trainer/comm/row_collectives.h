// Collectives in which ranks exchange rows. Derived classes transport the rows.
#pragma once

#include <optional>
#include <span>

#include "trainer/comm/collectives.h"
#include "trainer/comm/node_meeting.h"
#include "trainer/comm/rank_rows.h"

namespace ddprun::trainer {

class RowCollectives : public Collectives, protected NodeMeeting {
 public:
  using NodeMeeting::NodeMeeting;

  void UseTicket(uint64_t ticket) override { NodeMeeting::UseTicket(ticket); }
  void Cancel() override { NodeMeeting::Cancel(); }

  Status Broadcast(void* data, size_t bytes, int root, Clock::time_point deadline) override;
  Status AllGather(const void* input,
                   void* output,
                   size_t bytes,
                   Clock::time_point deadline) override;
  Status ReduceScatter(const void* input,
                       void* output,
                       size_t count,
                       DataType type,
                       Reduction reduction,
                       Clock::time_point deadline) override;
  Status AllToAll(const void* input,
                  void* output,
                  size_t bytes,
                  Clock::time_point deadline) override;
  Status AllToAllV(const void* input,
                   std::span<const size_t> send_bytes,
                   void* output,
                   std::span<const size_t> receive_bytes,
                   Clock::time_point deadline) override;
  Status Gather(
      const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) override;
  Status Scatter(
      const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) override;
  Status Barrier(Clock::time_point deadline) override;

 protected:
  using Collectives::size;

  // Exchanges `rows`, piece by piece; this rank's rows are in `input`. Calls `collect` for each
  // piece while the rows of all ranks are in place.
  virtual Status ShareRows(NodeOperation& operation,
                           const RankRows& rows,
                           const void* input,
                           const CollectRows& collect) = 0;

  // Ends an operation. Returns `status`.
  virtual Status Ended(Status status) { return status; }

  // Sums the row of each rank that is for this rank into `output`, if this rank takes.
  Status SumRows(CollectiveKind kind,
                 RankRows rows,
                 const void* input,
                 void* output,
                 DataType type,
                 Reduction reduction,
                 Clock::time_point deadline);

 private:
  NodeOperation BeginRows(CollectiveKind kind,
                          RankRows& rows,
                          const void* input,
                          Clock::time_point deadline,
                          std::optional<size_t> own_bytes = {});
  // Copies the rows for this rank to `output`, if this rank takes: one row of each giver, in order.
  Status CopyRows(CollectiveKind kind,
                  RankRows rows,
                  const void* input,
                  void* output,
                  Clock::time_point deadline,
                  std::optional<size_t> own_bytes = {});
};

}  // namespace ddprun::trainer
