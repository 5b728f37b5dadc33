#include "trainer/comm/multi_node_slices.h"

#include <algorithm>
#include <cstring>

#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

namespace {

bool Done(const NodeLink::Handle& handle) {
  return handle->done.load(std::memory_order_acquire);
}

bool Arrived(const NodeLink::Handle& handle) {
  return Done(handle) && handle->status.ok();
}

}  // namespace

std::optional<MultiNodeSlices::Terms> MultiNodeSlices::Choose(const NodePlacement& placement,
                                                              DataType type,
                                                              bool by_node) {
  // The unit is the array's size divided by the number of nodes. Sums travel as accumulated
  // elements until the last of them is made.
  const auto nodes = static_cast<size_t>(placement.nodes());
  const size_t widening = PartialSizeOf(type) / SizeOf(type);
  const auto& legs = placement.legs();
  size_t chain = 0;
  size_t of_ranks = 0;
  for (int node = 0; node < placement.nodes(); ++node) {
    size_t out = placement.way_back().back() == node ? 0 : 1;
    size_t in = placement.way_back().front() == node ? 0 : 1;
    for (size_t i = 0; i < legs.size(); ++i) {
      if (legs[i].node != node) continue;
      if (i + 1 < legs.size()) out += widening;
      if (i > 0) in += widening;
    }
    chain = std::max(chain, std::max(out, in) * nodes);
    const size_t own = placement.Members(node).size();
    const size_t others = static_cast<size_t>(placement.size()) - own;
    of_ranks = std::max(of_ranks, std::max(own * (nodes - 1), others) + nodes - 1);
  }
  const size_t of_nodes = (widening + 1) * (nodes - 1);
  if (by_node && of_nodes < std::min(chain, of_ranks)) return Terms::kNode;
  return of_ranks <= chain ? std::optional(Terms::kRanks) : std::nullopt;
}

MultiNodeSlices::MultiNodeSlices(NodeLink& link,
                                 const NodePlacement& placement,
                                 const NodeOperation& operation,
                                 Terms terms,
                                 std::vector<std::byte>& buffer)
    : link_(link),
      placement_(placement),
      operation_(operation),
      terms_(terms),
      buffer_(buffer),
      number_(static_cast<uint32_t>(operation.header.sequence << 12)),
      peer_of_node_(static_cast<size_t>(placement.nodes()), -1) {
  // Begins with the next node, so that the nodes do not all send to the same one first.
  for (int distance = 1; distance < placement_.nodes(); ++distance) {
    const int node = (placement_.node() + distance) % placement_.nodes();
    peer_of_node_[static_cast<size_t>(node)] = static_cast<int>(peers_.size());
    peers_.push_back({.node = node, .rank = placement_.Counterpart(node), .slice = {}});
  }
}

size_t MultiNodeSlices::Pieces(const Chunk& slice) const {
  return (slice.size() + piece_bytes_ - 1) / piece_bytes_;
}

Chunk MultiNodeSlices::PieceOf(const Chunk& slice, size_t piece) const {
  const size_t begin = slice.begin + piece * piece_bytes_;
  return {begin, std::min(begin + piece_bytes_, slice.end)};
}

size_t MultiNodeSlices::TermsOf(int node) const {
  return terms_ == Terms::kNode ? 1 : placement_.Members(node).size();
}

size_t MultiNodeSlices::TermBytes(size_t piece_bytes) const {
  const DataType type = operation_.type();
  return terms_ == Terms::kNode ? piece_bytes / SizeOf(type) * PartialSizeOf(type) : piece_bytes;
}

std::byte* MultiNodeSlices::Incoming(const Peer& peer, size_t piece, size_t term) const {
  return peer.incoming +
         (piece % kWireWindow * TermsOf(peer.node) + term) * TermBytes(piece_bytes_);
}

void MultiNodeSlices::Prepare(size_t bytes) {
  piece_bytes_ = kWirePieceBytes;
  slice_ = ChunkOf(bytes, placement_.node(), placement_.nodes());
  const size_t term = TermBytes(piece_bytes_);
  const size_t outgoing = terms_ == Terms::kNode ? kWireWindow * term : 0;
  size_t wanted = term;
  for (Peer& peer : peers_) {
    const size_t terms = TermsOf(peer.node);
    peer.slice = ChunkOf(bytes, peer.node, placement_.nodes());
    peer.pieces = Pieces(peer.slice);
    peer.sends.resize(kWireWindow * TermsOf(placement_.node()));
    peer.terms.resize(kWireWindow * terms);
    peer.sums.resize(kWireWindow);
    wanted += kWireWindow * terms * term + outgoing;
  }
  if (buffer_.size() < wanted) buffer_.resize(wanted);
  own_sum_ = buffer_.data();
  std::byte* next = own_sum_ + term;
  for (Peer& peer : peers_) {
    peer.outgoing = next;
    peer.incoming = next + outgoing;
    next = peer.incoming + kWireWindow * TermsOf(peer.node) * term;
  }
}

Status MultiNodeSlices::AllReduce(std::span<std::byte* const> arrays, size_t bytes) {
  arrays_.assign(arrays.begin(), arrays.end());
  Prepare(bytes);
  const auto advance = [&] {
    bool again = true;
    while (again) {
      again = SumPiece();
      for (Peer& peer : peers_) {
        again = ReceiveTerms(peer) || again;
        again = SendTerms(peer) || again;
        again = ReceiveSums(peer) || again;
      }
    }
    return summed_ == Pieces(slice_) &&
           std::all_of(peers_.begin(), peers_.end(),
                       [](const Peer& peer) { return peer.here == peer.pieces; });
  };
  DDPRUN_TRY(link_.WaitUntil(operation_, advance));
  return link_.AwaitAll(operation_);
}

void MultiNodeSlices::SumNode(const Chunk& piece, std::byte* sum) const {
  std::vector<const std::byte*> sources;
  for (const std::byte* array : arrays_) sources.push_back(array + piece.begin);
  FoldArrays({.type = operation_.type(),
              .reduction = operation_.reduction(),
              .sources = sources,
              .count = piece.size() / SizeOf(operation_.type())},
             sum);
}

bool MultiNodeSlices::SendTerms(Peer& peer) {
  bool moved = false;
  const size_t terms = TermsOf(placement_.node());
  for (; peer.sent < peer.begun; ++peer.sent) {
    const auto first = peer.sends.begin() + static_cast<ptrdiff_t>(peer.sent % kWireWindow * terms);
    if (!std::all_of(first, first + static_cast<ptrdiff_t>(terms), Done)) break;
    moved = true;
  }
  for (; peer.begun < peer.pieces && peer.begun < peer.sent + kWireWindow; ++peer.begun) {
    const Chunk piece = PieceOf(peer.slice, peer.begun);
    const size_t place = peer.begun % kWireWindow;
    std::byte* const sum = peer.outgoing + place * TermBytes(piece_bytes_);
    if (terms_ == Terms::kNode) SumNode(piece, sum);
    for (size_t term = 0; term < terms; ++term) {
      const std::byte* const from = terms_ == Terms::kNode ? sum : arrays_[term] + piece.begin;
      peer.sends[place * terms + term] =
          link_.Send(peer.rank, WireStream::kPartial, number_, from, TermBytes(piece.size()));
    }
    moved = true;
  }
  return moved;
}

bool MultiNodeSlices::ReceiveTerms(Peer& peer) {
  bool moved = false;
  const size_t terms = TermsOf(peer.node);
  for (; peer.asked < Pieces(slice_) && peer.asked < summed_ + kWireWindow; ++peer.asked) {
    for (size_t term = 0; term < terms; ++term) {
      peer.terms[peer.asked % kWireWindow * terms + term] =
          link_.Receive(peer.rank, WireStream::kPartial, number_, Incoming(peer, peer.asked, term),
                        TermBytes(PieceOf(slice_, peer.asked).size()));
    }
    moved = true;
  }
  return moved;
}

bool MultiNodeSlices::TermsAreHere(size_t piece) const {
  return std::all_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    if (peer.asked <= piece) return false;
    const auto terms = static_cast<ptrdiff_t>(TermsOf(peer.node));
    const auto first = peer.terms.begin() + static_cast<ptrdiff_t>(piece % kWireWindow) * terms;
    return std::all_of(first, first + terms, Arrived);
  });
}

void MultiNodeSlices::SumRanks(const Chunk& piece, std::span<std::byte* const> destinations) const {
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < placement_.size(); ++rank) {
    const int peer = peer_of_node_[static_cast<size_t>(placement_.NodeOf(rank))];
    const auto member = static_cast<size_t>(placement_.LocalOf(rank));
    sources.push_back(peer < 0 ? arrays_[member] + piece.begin
                               : Incoming(peers_[static_cast<size_t>(peer)], summed_, member));
  }
  FinishArrays({.type = operation_.type(),
                .reduction = operation_.reduction(),
                .sources = sources,
                .count = piece.size() / SizeOf(operation_.type())},
               placement_.size(), destinations);
}

void MultiNodeSlices::SumNodes(const Chunk& piece, std::span<std::byte* const> destinations) const {
  SumNode(piece, own_sum_);
  std::vector<const std::byte*> sums;
  for (const int peer : peer_of_node_) {
    sums.push_back(peer < 0 ? own_sum_ : Incoming(peers_[static_cast<size_t>(peer)], summed_, 0));
  }
  FinishArrays({.type = operation_.type(),
                .reduction = operation_.reduction(),
                .before = sums.front(),
                .sources = {},
                .count = piece.size() / SizeOf(operation_.type()),
                .partials = std::span(sums).subspan(1)},
               placement_.size(), destinations);
}

// Sums the next piece of this node's slice, if its terms are here, and sends the sum to all.
bool MultiNodeSlices::SumPiece() {
  if (summed_ == Pieces(slice_) || !TermsAreHere(summed_)) return false;
  const Chunk piece = PieceOf(slice_, summed_);
  std::vector<std::byte*> destinations;
  for (std::byte* array : arrays_) destinations.push_back(array + piece.begin);
  terms_ == Terms::kNode ? SumNodes(piece, destinations) : SumRanks(piece, destinations);
  const auto own = static_cast<size_t>(placement_.LocalOf(placement_.rank()));
  for (const Peer& peer : peers_) {
    link_.Send(peer.rank, WireStream::kResult, number_, destinations[own], piece.size());
  }
  ++summed_;
  return true;
}

// A sum replaces values that this node has sent: its receive begins when their sends are done.
bool MultiNodeSlices::ReceiveSums(Peer& peer) {
  bool moved = false;
  const auto own = static_cast<size_t>(placement_.LocalOf(placement_.rank()));
  for (; peer.awaited < peer.sent && peer.awaited < peer.here + kWireWindow; ++peer.awaited) {
    const Chunk piece = PieceOf(peer.slice, peer.awaited);
    peer.sums[peer.awaited % kWireWindow] = link_.Receive(peer.rank, WireStream::kResult, number_,
                                                          arrays_[own] + piece.begin, piece.size());
    moved = true;
  }
  for (; peer.here < peer.awaited && Arrived(peer.sums[peer.here % kWireWindow]); ++peer.here) {
    const Chunk piece = PieceOf(peer.slice, peer.here);
    for (size_t local = 0; local < arrays_.size(); ++local) {
      if (local == own) continue;
      std::memcpy(arrays_[local] + piece.begin, arrays_[own] + piece.begin, piece.size());
    }
    moved = true;
  }
  return moved;
}

}  // namespace ddprun::trainer
