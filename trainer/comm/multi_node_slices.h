// Sums slices of an array on all nodes at once: each node receives what the other nodes have for
// its slice, adds it, and sends the sum to all. Internal to MultiNodeGroup.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "trainer/comm/chunk.h"
#include "trainer/comm/node_link.h"

namespace ddprun::trainer {

// One rank's part in one all-reduce. The rank carries (NodePlacement::carries) and works on the
// memory of all ranks of its node.
class MultiNodeSlices {
 public:
  // The values that a node sends for another node's slice.
  enum class Terms {
    kRanks,  // the values of each of its ranks; the result has the bits of MultiNodeChain's
    kNode,   // their sum; the nodes' sums are added in the order of the nodes
  };

  // `buffer` is used by one operation after another, so that its pages stay allocated.
  MultiNodeSlices(NodeLink& link,
                  const NodePlacement& placement,
                  const NodeOperation& operation,
                  Terms terms,
                  std::vector<std::byte>& buffer);

  // All-reduces `bytes` bytes of each rank. `arrays` has one array for each rank of this node; the
  // result replaces it. All ranks with this rank's place in their node pass the same `bytes`. An
  // Error leaves the arrays undefined.
  Status AllReduce(std::span<std::byte* const> arrays, size_t bytes);

  // Returns the terms with which the busiest node sends and receives least; nullopt if that is more
  // than in a MultiNodeChain, where one node makes most sums. `by_node`: whether kNode is allowed.
  static std::optional<Terms> Choose(const NodePlacement& placement, DataType type, bool by_node);

 private:
  using Handle = NodeLink::Handle;
  // Another node, and the rank there with this rank's place. The counts are of pieces of a slice.
  struct Peer {
    int node = 0;
    int rank = 0;
    Chunk slice;  // the slice that the peer sums
    size_t pieces = 0;
    // Terms of this node for the peer's slice: `begun` >= `sent`.
    size_t begun = 0;
    size_t sent = 0;
    std::byte* outgoing = nullptr;   // only with kNode
    std::vector<Handle> sends = {};  // by place in the window and term
    // Terms of the peer for this node's slice.
    size_t asked = 0;
    std::byte* incoming = nullptr;
    std::vector<Handle> terms = {};  // by place in the window and term
    // The peer's sums.
    size_t awaited = 0;
    size_t here = 0;
    std::vector<Handle> sums = {};  // by place in the window
  };

  void Prepare(size_t bytes);
  size_t Pieces(const Chunk& slice) const;
  Chunk PieceOf(const Chunk& slice, size_t piece) const;
  size_t TermsOf(int node) const;              // their number
  size_t TermBytes(size_t piece_bytes) const;  // the size of one
  std::byte* Incoming(const Peer& peer, size_t piece, size_t term) const;
  // Sums this node's values of a piece into `sum`.
  void SumNode(const Chunk& piece, std::byte* sum) const;
  void SumRanks(const Chunk& piece, std::span<std::byte* const> destinations) const;
  void SumNodes(const Chunk& piece, std::span<std::byte* const> destinations) const;
  bool SendTerms(Peer& peer);
  bool ReceiveTerms(Peer& peer);
  bool ReceiveSums(Peer& peer);
  bool SumPiece();
  bool TermsAreHere(size_t piece) const;

  NodeLink& link_;
  const NodePlacement& placement_;
  const NodeOperation& operation_;
  const Terms terms_;
  std::vector<std::byte>& buffer_;
  const uint32_t number_;  // of the messages
  std::vector<std::byte*> arrays_;
  size_t piece_bytes_ = 0;
  Chunk slice_;                   // the slice that this node sums
  size_t summed_ = 0;             // pieces of it
  std::byte* own_sum_ = nullptr;  // of a piece of it; only with kNode
  std::vector<Peer> peers_;
  std::vector<int> peer_of_node_;  // index in `peers_`; -1 for this node
};

}  // namespace ddprun::trainer
