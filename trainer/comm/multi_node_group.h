// Collectives among ranks of several nodes: inside a node through memory that its ranks share,
// between nodes by messages, which the ranks of a node share out among them (NodePlacement::lanes).
//
// A large all-reduce or reduce-scatter is a sum on its way through the ranks in their order: each
// node adds its ranks' values to what comes from the node before and passes it on, and the result
// comes back the same way, piece by piece, so that the network and the summing overlap and all
// links are in use in both directions. Everything else moves each rank's data as it is.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer/comm/collectives.h"
#include "trainer/comm/node_link.h"
#include "trainer/comm/node_meeting.h"
#include "trainer/comm/node_placement.h"

namespace ddprun::trainer {

// One rank's member of the group. An Error leaves the group, and the transport, unusable.
class MultiNodeGroup : public Collectives, private NodeMeeting {
 public:
  // `region`: that of the ranks of this node, by their place in it; must outlive the group.
  // `meeting`: with them; what is staged at a time is the group's own.
  MultiNodeGroup(SharedRegion& region,
                 const NodePlacement& placement,
                 GroupWire wire,
                 const NodeMeeting::Options& meeting);
  ~MultiNodeGroup() override;

  int rank() const override { return placement_.rank(); }
  int size() const override { return placement_.size(); }
  void UseTicket(uint64_t ticket) override { NodeMeeting::UseTicket(ticket); }
  void Cancel() override { NodeMeeting::Cancel(); }

  // kDirect only.
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

 private:
  // What is staged at a time: much, as a sum's way through all nodes begins anew with each piece.
  static constexpr size_t kStaging = size_t{32} << 20;

  struct Rows;
  // source(rank, row) points at columns [begin, begin + columns) of a row of a rank that gives.
  using Source = std::function<const std::byte*(int rank, int row)>;
  using Collect = std::function<void(size_t begin, size_t columns, const Source& source)>;

  // Tells the other nodes of a failure on this one, and passes it on.
  Status Ended(Status status);
  Status ReduceLarge(const NodeOperation& operation, std::byte* data);
  Status ReduceScatterLarge(NodeOperation& operation, const std::byte* input, std::byte* output);
  // Has `work` done, with the chain of an operation whose headers have been exchanged.
  template <typename Work>
  Status Carry(const NodeOperation& operation, bool first, const Work& work);
  Status ReduceSmall(
      void* data, size_t count, DataType type, Reduction reduction, Clock::time_point deadline);
  NodeOperation BeginRows(CollectiveKind kind,
                          const Rows& rows,
                          const void* input,
                          Clock::time_point deadline,
                          std::optional<size_t> own_bytes = {});
  Status ShareRows(NodeOperation& operation, Rows& rows, const void* input, const Collect& collect);
  void PlanInbox(Rows& rows);
  void GrowInbox(size_t bytes);
  Status ExchangeBlocks(const NodeOperation& operation, const Rows& rows, size_t begin);
  const std::byte* LocalRow(const Rows& rows, int rank, int row, size_t begin);
  Status Move(CollectiveKind kind,
              Rows rows,
              const void* input,
              void* output,
              Clock::time_point deadline,
              std::optional<size_t> own_bytes = {});
  Collect Copying(const Rows& rows, const void* input, void* output);
  // Row number `row`, over all ranks.
  Collect Summing(const NodeOperation& operation, void* output, int row);

  const NodePlacement placement_;
  std::unique_ptr<NodeLink> link_;  // nullptr for a rank that does not carry
  std::vector<std::byte> chain_buffer_;
  std::byte* inbox_ = nullptr;  // in the own heap
  size_t inbox_bytes_ = 0;
  std::byte* old_inbox_ = nullptr;  // others may still read it
};

}  // namespace ddprun::trainer
