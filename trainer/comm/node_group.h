// Collectives among the ranks of one node, through memory that they share.
//
// Cost: an all-reduce of up to kSlotBytes needs one meeting of the ranks, a larger one two. If the
// data of every rank lies in memory from SharedRegion::Allocate(), nothing is copied; otherwise
// ranks stage their data through the heap in pieces.
#pragma once

#include <functional>
#include <optional>

#include "trainer/comm/node_stream.h"
#include "trainer/comm/row_collectives.h"

namespace ddprun::trainer {

// One rank's member of the group. `region` must outlive it.
class NodeGroup : public RowCollectives {
 public:
  using Options = NodeMeeting::Options;
  NodeGroup(SharedRegion& region, Options options) : RowCollectives(region, std::move(options)) {}

  int rank() const override { return self(); }
  int size() const override { return NodeMeeting::size(); }

  Status AllReduce(void* data,
                   size_t count,
                   DataType type,
                   Reduction reduction,
                   Clock::time_point deadline,
                   AllReduceAlgorithm algorithm = AllReduceAlgorithm::kDirect) override;
  Status Reduce(void* data,
                size_t count,
                DataType type,
                Reduction reduction,
                int root,
                Clock::time_point deadline) override;

  // See StreamOnNode().
  Status Stream(int root, bool takes, std::chrono::milliseconds timeout, const UseStream& use) {
    return StreamOnNode(*this, root, takes, timeout, use);
  }

 private:
  Status ShareRows(NodeOperation& operation,
                   const RankRows& rows,
                   const void* input,
                   const CollectRows& collect) override;
  Status ReduceThroughSlots(const NodeOperation& operation,
                            void* data,
                            size_t count,
                            bool receives);
  Status ReduceLarge(const NodeOperation& operation, void* data, std::optional<int> root);
  // Calls work(begin, bytes) for each piece, when PieceOf(every rank, begin) is in place. After
  // each piece, copies this rank's piece to `data` if it `receives`.
  using Work = std::function<Status(size_t begin, size_t bytes)>;
  Status InPieces(const NodeOperation& operation, void* data, bool receives, const Work& work);
};

}  // namespace ddprun::trainer
