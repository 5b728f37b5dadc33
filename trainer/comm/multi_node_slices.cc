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

bool MultiNodeSlices::Pays(const NodePlacement& placement, DataType type) {
  // The unit is the array's size divided by the number of nodes. The chain's sums travel as
  // accumulated elements until the last leg.
  const auto nodes = static_cast<size_t>(placement.nodes());
  const size_t widening = PartialSizeOf(type) / SizeOf(type);
  const auto& legs = placement.legs();
  size_t chain = 0;
  size_t slices = 0;
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
    slices = std::max(slices, std::max(own * (nodes - 1), others) + nodes - 1);
  }
  return slices < chain;
}

MultiNodeSlices::MultiNodeSlices(NodeLink& link,
                                 const NodePlacement& placement,
                                 const NodeOperation& operation,
                                 std::vector<std::byte>& buffer)
    : link_(link),
      placement_(placement),
      operation_(operation),
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

std::byte* MultiNodeSlices::Buffer(const Peer& peer, size_t piece, size_t member) const {
  const size_t members = placement_.Members(peer.node).size();
  return peer.buffers + (piece % kWireWindow * members + member) * piece_bytes_;
}

void MultiNodeSlices::Prepare(size_t bytes) {
  piece_bytes_ = kWirePieceBytes;
  slice_ = ChunkOf(bytes, placement_.node(), placement_.nodes());
  size_t places = 0;
  for (Peer& peer : peers_) {
    const size_t members = placement_.Members(peer.node).size();
    peer.slice = ChunkOf(bytes, peer.node, placement_.nodes());
    peer.pieces = Pieces(peer.slice);
    peer.sends.resize(kWireWindow * arrays_.size());
    peer.values.resize(kWireWindow * members);
    peer.sums.resize(kWireWindow);
    places += kWireWindow * members;
  }
  if (buffer_.size() < places * piece_bytes_) buffer_.resize(places * piece_bytes_);
  std::byte* next = buffer_.data();
  for (Peer& peer : peers_) {
    peer.buffers = next;
    next += kWireWindow * placement_.Members(peer.node).size() * piece_bytes_;
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
        again = ReceiveValues(peer) || again;
        again = SendValues(peer) || again;
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

bool MultiNodeSlices::SendValues(Peer& peer) {
  bool moved = false;
  const size_t locals = arrays_.size();
  for (; peer.sent < peer.begun; ++peer.sent) {
    const auto first =
        peer.sends.begin() + static_cast<ptrdiff_t>(peer.sent % kWireWindow * locals);
    if (!std::all_of(first, first + static_cast<ptrdiff_t>(locals), Done)) break;
    moved = true;
  }
  for (; peer.begun < peer.pieces && peer.begun < peer.sent + kWireWindow; ++peer.begun) {
    const Chunk piece = PieceOf(peer.slice, peer.begun);
    for (size_t local = 0; local < locals; ++local) {
      peer.sends[peer.begun % kWireWindow * locals + local] = link_.Send(
          peer.rank, WireStream::kPartial, number_, arrays_[local] + piece.begin, piece.size());
    }
    moved = true;
  }
  return moved;
}

bool MultiNodeSlices::ReceiveValues(Peer& peer) {
  bool moved = false;
  const size_t members = placement_.Members(peer.node).size();
  for (; peer.asked < Pieces(slice_) && peer.asked < summed_ + kWireWindow; ++peer.asked) {
    for (size_t member = 0; member < members; ++member) {
      peer.values[peer.asked % kWireWindow * members + member] =
          link_.Receive(peer.rank, WireStream::kPartial, number_, Buffer(peer, peer.asked, member),
                        PieceOf(slice_, peer.asked).size());
    }
    moved = true;
  }
  return moved;
}

bool MultiNodeSlices::ValuesAreHere(size_t piece) const {
  return std::all_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    if (peer.asked <= piece) return false;
    const auto members = static_cast<ptrdiff_t>(placement_.Members(peer.node).size());
    const auto first = peer.values.begin() + static_cast<ptrdiff_t>(piece % kWireWindow) * members;
    return std::all_of(first, first + members, Arrived);
  });
}

// Sums the next piece of this node's slice, if its values are here, and sends the sum to all.
bool MultiNodeSlices::SumPiece() {
  if (summed_ == Pieces(slice_) || !ValuesAreHere(summed_)) return false;
  const Chunk piece = PieceOf(slice_, summed_);
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < placement_.size(); ++rank) {
    const int peer = peer_of_node_[static_cast<size_t>(placement_.NodeOf(rank))];
    const auto member = static_cast<size_t>(placement_.LocalOf(rank));
    sources.push_back(peer < 0 ? arrays_[member] + piece.begin
                               : Buffer(peers_[static_cast<size_t>(peer)], summed_, member));
  }
  std::vector<std::byte*> destinations;
  for (std::byte* array : arrays_) destinations.push_back(array + piece.begin);
  FinishArrays({.type = operation_.type(),
                .reduction = operation_.reduction(),
                .sources = sources,
                .count = piece.size() / SizeOf(operation_.type())},
               placement_.size(), destinations);
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
