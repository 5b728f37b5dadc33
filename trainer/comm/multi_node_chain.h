// A sum on its way through the ranks of several nodes, and the result's way back, piece by piece.
// Internal to MultiNodeGroup.
#pragma once

#include <span>
#include <vector>

#include "trainer/comm/node_link.h"

namespace ddprun::trainer {

// One rank's part in one operation: a rank that carries, with the memory of all of its node.
class MultiNodeChain {
 public:
  // `buffer`: kept from one operation to the next, so that its pages are.
  MultiNodeChain(NodeLink& link,
                 const NodePlacement& placement,
                 const NodeOperation& operation,
                 std::vector<std::byte>& buffer);

  // `arrays`: of each rank of this node, `bytes` bytes, which the result replaces; the same number
  // of bytes on all ranks with this one's place. An Error leaves them undefined.
  Status AllReduce(std::span<std::byte* const> arrays, size_t bytes);

  // Rows of `bytes` bytes, one for each rank of the group, of each rank of this node: `stride`
  // bytes apart from `begin` on. `result`: where the sum of that rank's own row goes.
  struct Rows {
    const std::byte* begin = nullptr;
    size_t stride = 0;
    std::byte* result = nullptr;
  };
  Status ReduceScatter(std::span<const Rows> rows, size_t bytes);
  // Whether that carries less between the nodes than every rank's rows as they are.
  static bool PaysForReduceScatter(const NodePlacement& placement, DataType type);

 private:
  // Of a row: an all-reduce has one, which is everybody's.
  struct Place {
    int row = 0;
    size_t begin = 0;
    size_t bytes = 0;
  };
  // A run of ranks on this node. Its pieces go through a ring of buffers: received, summed in
  // place, sent; `received` >= `summed` >= `sent` count them.
  struct Leg {
    size_t number = 0;  // of all legs
    std::vector<int> locals;
    bool first = false;
    bool last = false;
    int from = 0;  // ranks
    int to = 0;
    std::byte* buffers = nullptr;
    size_t posted = 0;
    size_t summed = 0;
    size_t freed = 0;
    std::vector<NodeLink::Handle> receives = {};  // by place in the ring
    std::vector<NodeLink::Handle> sends = {};
  };
  struct Way {  // of the result
    int from = -1;
    int to = -1;
    std::vector<size_t> pieces;  // that come from there
    size_t posted = 0;
    size_t here = 0;
    std::vector<NodeLink::Handle> receives;  // of `pieces`
  };

  void Prepare(size_t bytes, int rows);
  Status Run();
  bool AdvanceLeg(Leg& leg);
  void Sum(Leg& leg, size_t piece);
  bool AdvanceResult();
  void Distribute(size_t piece);
  bool OnThisNode(size_t piece) const;
  Place PlaceOf(size_t piece) const;
  const std::byte* Source(int local, const Place& place) const;
  std::byte* Result(int local, const Place& place) const;
  std::byte* Buffer(const Leg& leg, size_t piece) const;
  size_t PartialBytes(size_t bytes) const;
  uint32_t Number(size_t leg) const;

  NodeLink& link_;
  const NodePlacement& placement_;
  const NodeOperation& operation_;
  std::vector<std::byte>& buffer_;
  std::vector<Rows> rows_;  // by place in the node
  bool scatters_ = false;
  size_t bytes_ = 0;  // of a row
  size_t row_pieces_ = 0;
  size_t piece_bytes_ = 0;
  size_t pieces_ = 0;
  std::vector<Leg> legs_;
  Way way_;
};

}  // namespace ddprun::trainer
