// Carries a sum through the ranks of several nodes, and the result back, piece by piece. Internal
// to MultiNodeGroup.
#pragma once

#include <span>
#include <vector>

#include "trainer/comm/node_link.h"

namespace ddprun::trainer {

// One rank's part in one operation. The rank carries (NodePlacement::carries) and works on the
// memory of all ranks of its node.
class MultiNodeChain {
 public:
  // `buffer` is used by one operation after another, so that its pages stay allocated.
  MultiNodeChain(NodeLink& link,
                 const NodePlacement& placement,
                 const NodeOperation& operation,
                 std::vector<std::byte>& buffer);

  // All-reduces `bytes` bytes of each rank. `arrays` has one array for each rank of this node; the
  // result replaces it. All ranks with this rank's place in their node pass the same `bytes`. An
  // Error leaves the arrays undefined.
  Status AllReduce(std::span<std::byte* const> arrays, size_t bytes);

  // The rows of one rank of this node: one row of `bytes` bytes for each rank of the group,
  // `stride` bytes apart from `begin` on. `result` receives the sum of this rank's row over all
  // ranks.
  struct Rows {
    const std::byte* begin = nullptr;
    size_t stride = 0;
    std::byte* result = nullptr;
  };
  Status ReduceScatter(std::span<const Rows> rows, size_t bytes);
  // Returns whether ReduceScatter() carries less between nodes than sending all rows unsummed.
  static bool PaysForReduceScatter(const NodePlacement& placement, DataType type);

 private:
  // The place of a piece. An all-reduce has one row, which belongs to all ranks.
  struct Place {
    int row = 0;
    size_t begin = 0;
    size_t bytes = 0;
  };
  // A run of ranks on this node. Its pieces go through a ring of buffers: the leg receives a piece,
  // sums it in place, and sends it. `posted` >= `summed` >= `freed` count the pieces.
  struct Leg {
    size_t number = 0;  // index among all legs
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
  struct Way {  // the way of the result back
    int from = -1;
    int to = -1;
    std::vector<size_t> pieces;  // that come from `from`
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
