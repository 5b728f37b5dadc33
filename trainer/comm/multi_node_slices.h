// Sums slices of an array on all nodes at once: each node receives the other nodes' values of its
// slice, adds them in rank order, and sends the sum to all. Internal to MultiNodeGroup.
#pragma once

#include <span>
#include <vector>

#include "trainer/comm/chunk.h"
#include "trainer/comm/node_link.h"

namespace ddprun::trainer {

// One rank's part in one all-reduce. The rank carries (NodePlacement::carries) and works on the
// memory of all ranks of its node. The result has the bits of MultiNodeChain's.
class MultiNodeSlices {
 public:
  // `buffer` is used by one operation after another, so that its pages stay allocated.
  MultiNodeSlices(NodeLink& link,
                  const NodePlacement& placement,
                  const NodeOperation& operation,
                  std::vector<std::byte>& buffer);

  // All-reduces `bytes` bytes of each rank. `arrays` has one array for each rank of this node; the
  // result replaces it. All ranks with this rank's place in their node pass the same `bytes`. An
  // Error leaves the arrays undefined.
  Status AllReduce(std::span<std::byte* const> arrays, size_t bytes);

  // Returns whether the busiest node sends and receives less than in a MultiNodeChain.
  static bool Pays(const NodePlacement& placement, DataType type);

 private:
  using Handle = NodeLink::Handle;
  // Another node, and the rank there with this rank's place. The counts are of pieces of a slice.
  struct Peer {
    int node = 0;
    int rank = 0;
    Chunk slice;  // the slice that the peer sums
    size_t pieces = 0;
    // Values of this node's ranks for the peer's slice: `begun` >= `sent`.
    size_t begun = 0;
    size_t sent = 0;
    std::vector<Handle> sends = {};  // by place in the window and rank of this node
    // Values of the peer's ranks for this node's slice.
    size_t asked = 0;
    std::byte* buffers = nullptr;
    std::vector<Handle> values = {};  // by place in the window and rank of the peer
    // The peer's sums.
    size_t awaited = 0;
    size_t here = 0;
    std::vector<Handle> sums = {};  // by place in the window
  };

  void Prepare(size_t bytes);
  size_t Pieces(const Chunk& slice) const;
  Chunk PieceOf(const Chunk& slice, size_t piece) const;
  std::byte* Buffer(const Peer& peer, size_t piece, size_t member) const;
  bool SendValues(Peer& peer);
  bool ReceiveValues(Peer& peer);
  bool ReceiveSums(Peer& peer);
  bool SumPiece();
  bool ValuesAreHere(size_t piece) const;

  NodeLink& link_;
  const NodePlacement& placement_;
  const NodeOperation& operation_;
  std::vector<std::byte>& buffer_;
  const uint32_t number_;  // of the messages
  std::vector<std::byte*> arrays_;
  size_t piece_bytes_ = 0;
  Chunk slice_;        // the slice that this node sums
  size_t summed_ = 0;  // pieces of it
  std::vector<Peer> peers_;
  std::vector<int> peer_of_node_;  // index in `peers_`; -1 for this node
};

}  // namespace ddprun::trainer
