// Collectives among ranks of several nodes. Inside a node, ranks use shared memory. Between nodes,
// some ranks of each node divide the messages among them (NodePlacement::lanes).
//
// A large all-reduce or reduce-scatter adds in rank order, on the way that carries less (with
// kHierarchical an all-reduce may add the sums of the nodes instead):
// - MultiNodeChain passes a sum from node to node: each node adds its ranks' values to the sum of
//   the node before. The result returns on the same way.
// - MultiNodeSlices lets each node sum a slice of the array.
// Pieces follow each other, so that the network and the summing overlap and all links are in use in
// both directions. All other operations send each rank's data unsummed.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trainer/comm/node_link.h"
#include "trainer/comm/node_placement.h"
#include "trainer/comm/row_collectives.h"

namespace ddprun::trainer {

// One rank's member of the group. An Error leaves the group and the transport unusable.
class MultiNodeGroup : public RowCollectives {
 public:
  // `region`: the memory of this node's ranks, by their place in the node; must outlive the group.
  // `meeting`: of the ranks of this node; the group replaces its `staging_bytes`.
  MultiNodeGroup(SharedRegion& region,
                 const NodePlacement& placement,
                 GroupWire wire,
                 const NodeMeeting::Options& meeting);
  ~MultiNodeGroup() override;

  int rank() const override { return placement_.rank(); }
  int size() const override { return placement_.size(); }

  // Supports only kDirect and kHierarchical.
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
  Status ReduceScatter(const void* input,
                       void* output,
                       size_t count,
                       DataType type,
                       Reduction reduction,
                       Clock::time_point deadline) override;

 private:
  // Bytes that are staged at a time. The number is large, because each piece passes through all
  // nodes before the next one begins.
  static constexpr size_t kStaging = size_t{32} << 20;

  // The layout of the inbox for rows from other nodes.
  struct Inbox {
    size_t columns = 0;               // of a piece: bytes of each row
    std::vector<size_t> places = {};  // [rank][row]
  };

  // If the operation failed, reports the error to the other nodes.
  Status Ended(Status status) override;
  Status ReduceLarge(const NodeOperation& operation, std::byte* data);
  Status ReduceScatterLarge(NodeOperation& operation, const std::byte* input, std::byte* output);
  // All-reduces between the nodes. `arrays`: as MultiNodeChain::AllReduce().
  Status CarrySum(const NodeOperation& operation, std::span<std::byte* const> arrays, size_t bytes);
  // Calls work(). If `first`, exchanges the operation's headers with the other nodes before.
  template <typename Work>
  Status Carry(const NodeOperation& operation, bool first, const Work& work);
  Status ShareRows(NodeOperation& operation,
                   const RankRows& rows,
                   const void* input,
                   const CollectRows& collect) override;
  Inbox PlanInbox(const RankRows& rows);
  void GrowInbox(size_t bytes);
  void FreeOldInboxes();
  Status ExchangeBlocks(const NodeOperation& operation,
                        const RankRows& rows,
                        const Inbox& inbox,
                        size_t begin);
  const std::byte* LocalRow(
      const RankRows& rows, const Inbox& inbox, int rank, int row, size_t begin);

  const NodePlacement placement_;
  std::unique_ptr<NodeLink> link_;  // nullptr for a rank that does not carry
  std::vector<std::byte> carry_buffer_;
  std::byte* inbox_ = nullptr;  // in this rank's heap
  size_t inbox_bytes_ = 0;
  std::vector<std::byte*> old_inboxes_;  // other ranks may still read them
};

}  // namespace ddprun::trainer
