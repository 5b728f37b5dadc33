// A sum on its way through the ranks of several nodes and back, piece by piece. Internal to
// MultiNodeGroup.
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
  Status Run(std::span<std::byte* const> arrays, size_t bytes);

 private:
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
    size_t posted = 0;
    size_t here = 0;
    std::vector<NodeLink::Handle> receives;  // by piece
  };

  void Prepare(size_t bytes);
  bool AdvanceLeg(Leg& leg);
  void Sum(Leg& leg, size_t piece);
  bool AdvanceResult();
  size_t PieceSize(size_t piece) const;
  size_t PartialBytes(size_t piece) const;
  uint32_t Number(size_t leg) const;

  NodeLink& link_;
  const NodePlacement& placement_;
  const NodeOperation& operation_;
  std::vector<std::byte>& buffer_;
  std::span<std::byte* const> arrays_;
  size_t bytes_ = 0;
  size_t piece_bytes_ = 0;
  size_t pieces_ = 0;
  std::vector<Leg> legs_;
  Way way_;
};

}  // namespace ddprun::trainer
