// Collectives among the ranks of one node, through memory that they share.
//
// Cost: an all-reduce of up to kSlotBytes needs one meeting of the ranks, a larger one two. If the
// data of every rank lies in memory from SharedRegion::Allocate(), nothing is copied; otherwise
// ranks stage their data through the heap in pieces.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "trainer/comm/collectives.h"
#include "trainer/comm/node_meeting.h"

namespace ddprun::trainer {

// One rank's member of the group. `region` must outlive it.
class NodeGroup : public Collectives, private NodeMeeting {
 public:
  using Options = NodeMeeting::Options;
  NodeGroup(SharedRegion& region, Options options) : NodeMeeting(region, std::move(options)) {}

  int rank() const override { return self(); }
  int size() const override { return NodeMeeting::size(); }
  void UseTicket(uint64_t ticket) override { NodeMeeting::UseTicket(ticket); }
  void Cancel() override { NodeMeeting::Cancel(); }

  Status AllReduce(void* data,
                   size_t count,
                   DataType type,
                   Reduction reduction,
                   Clock::time_point deadline,
                   AllReduceAlgorithm algorithm = AllReduceAlgorithm::kDirect) override;
  Status Broadcast(void* data, size_t bytes, int root, Clock::time_point deadline) override;
  Status AllGather(const void* input,
                   void* output,
                   size_t bytes,
                   Clock::time_point deadline) override;
  Status Reduce(void* data,
                size_t count,
                DataType type,
                Reduction reduction,
                int root,
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

  // Passes the next bytes of a stream. All ranks pass the same sizes in the same order.
  using PassBytes = std::function<Status(void* data, size_t bytes)>;
  // Streams bytes from `root` to the ranks that set `takes`, piece by piece. Calls `use` once, with
  // a function `pass` that reads `data` at the root, writes it at ranks that take, and does nothing
  // at other ranks. No rank waits for another one longer than `timeout`.
  Status Stream(int root,
                bool takes,
                std::chrono::milliseconds timeout,
                const std::function<Status(const PassBytes& pass)>& use);

 private:
  using Kind = CollectiveKind;
  using Operation = NodeOperation;
  struct Rows;
  struct Study;  // the other algorithms of all-reduce

  Status ReduceThroughSlots(const Operation& operation, void* data, size_t count, bool receives);
  Status ReduceLarge(const Operation& operation, void* data, std::optional<int> root);
  // Calls work(begin, bytes) for each piece, when PieceOf(every rank, begin) is in place. After
  // each piece, copies this rank's piece to `data` if it `receives`.
  using Work = std::function<Status(size_t begin, size_t bytes)>;
  Status InPieces(const Operation& operation, void* data, bool receives, const Work& work);
  Status AllReduceBy(AllReduceAlgorithm algorithm, Operation& operation, void* data);
  Status Copy(const Operation& operation, const void* input, void* output, int first, int last);
  template <typename Collect>
  Status ShareRows(const Operation& operation,
                   const Rows& rows,
                   const void* input,
                   int first,
                   int last,
                   const Collect& collect);
};

}  // namespace ddprun::trainer
