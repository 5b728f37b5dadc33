#include "trainer/comm/multi_node_chain.h"

#include <algorithm>
#include <cstring>

#include "trainer/comm/chunk.h"
#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kLeastPieceBytes = size_t{16} << 10;
constexpr size_t kPiecesWanted = 16;

}  // namespace

MultiNodeChain::MultiNodeChain(NodeLink& link,
                               const NodePlacement& placement,
                               const NodeOperation& operation,
                               std::vector<std::byte>& buffer)
    : link_(link), placement_(placement), operation_(operation), buffer_(buffer) {
  const auto& all = placement_.legs();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].node != placement_.node()) continue;
    Leg leg{.number = i, .locals = all[i].locals, .first = i == 0, .last = i + 1 == all.size()};
    if (!leg.first) leg.from = placement_.Counterpart(all[i - 1].node);
    if (!leg.last) leg.to = placement_.Counterpart(all[i + 1].node);
    leg.receives.resize(kWireWindow);
    leg.sends.resize(kWireWindow);
    legs_.push_back(std::move(leg));
  }
}

bool MultiNodeChain::PaysForReduceScatter(const NodePlacement& placement, DataType type) {
  // Compares the traffic, in units of all rows of a rank divided by the number of nodes. Each node
  // passes all rows on as accumulated elements, except for the last one, which sends the other
  // nodes their rows.
  const size_t nodes = static_cast<size_t>(placement.nodes());
  const size_t widening = PartialSizeOf(type) / SizeOf(type);
  const size_t sums = (placement.legs().size() - 1) * widening * nodes + nodes - 1;
  return sums < static_cast<size_t>(placement.size()) * (nodes - 1);
}

uint32_t MultiNodeChain::Number(size_t leg) const {
  return static_cast<uint32_t>(operation_.header.sequence << 12 | leg);
}

MultiNodeChain::Place MultiNodeChain::PlaceOf(size_t piece) const {
  const size_t begin = piece % row_pieces_ * piece_bytes_;
  return {static_cast<int>(piece / row_pieces_), begin, std::min(piece_bytes_, bytes_ - begin)};
}

// Returns whether the piece of a reduce-scatter belongs to a rank of this node.
bool MultiNodeChain::OnThisNode(size_t piece) const {
  return placement_.NodeOf(PlaceOf(piece).row) == placement_.node();
}

const std::byte* MultiNodeChain::Source(int local, const Place& place) const {
  const Rows& rows = rows_[static_cast<size_t>(local)];
  return rows.begin + static_cast<size_t>(place.row) * rows.stride + place.begin;
}

std::byte* MultiNodeChain::Result(int local, const Place& place) const {
  return rows_[static_cast<size_t>(local)].result + place.begin;
}

std::byte* MultiNodeChain::Buffer(const Leg& leg, size_t piece) const {
  return leg.buffers + piece % kWireWindow * PartialBytes(piece_bytes_);
}

size_t MultiNodeChain::PartialBytes(size_t bytes) const {
  return bytes / SizeOf(operation_.type()) * PartialSizeOf(operation_.type());
}

void MultiNodeChain::Prepare(size_t bytes, int rows) {
  bytes_ = bytes;
  const size_t all = bytes * static_cast<size_t>(rows);
  const size_t wanted = (all / kPiecesWanted + kLineBytes - 1) / kLineBytes * kLineBytes;
  piece_bytes_ = std::clamp(wanted, kLeastPieceBytes, kWirePieceBytes);
  row_pieces_ = (bytes + piece_bytes_ - 1) / piece_bytes_;
  pieces_ = row_pieces_ * static_cast<size_t>(rows);
  const size_t ring_bytes = PartialBytes(piece_bytes_) * kWireWindow;
  if (buffer_.size() < ring_bytes * legs_.size()) buffer_.resize(ring_bytes * legs_.size());
  for (size_t i = 0; i < legs_.size(); ++i) legs_[i].buffers = buffer_.data() + i * ring_bytes;
}

Status MultiNodeChain::AllReduce(std::span<std::byte* const> arrays, size_t bytes) {
  for (std::byte* array : arrays) rows_.push_back({.begin = array, .stride = 0, .result = array});
  Prepare(bytes, 1);
  const std::vector<int>& back = placement_.way_back();
  const auto here = std::find(back.begin(), back.end(), placement_.node());
  if (here != back.begin()) {
    way_.from = placement_.Counterpart(*(here - 1));
    for (size_t piece = 0; piece < pieces_; ++piece) way_.pieces.push_back(piece);
  }
  if (here + 1 != back.end()) way_.to = placement_.Counterpart(*(here + 1));
  return Run();
}

Status MultiNodeChain::ReduceScatter(std::span<const Rows> rows, size_t bytes) {
  scatters_ = true;
  rows_.assign(rows.begin(), rows.end());
  Prepare(bytes, placement_.size());
  const int last = placement_.legs().back().node;
  if (last != placement_.node()) {
    way_.from = placement_.Counterpart(last);
    for (size_t piece = 0; piece < pieces_; ++piece) {
      if (OnThisNode(piece)) way_.pieces.push_back(piece);
    }
  }
  return Run();
}

Status MultiNodeChain::Run() {
  way_.receives.resize(way_.pieces.size());
  const auto advance = [&] {
    bool again = true;
    while (again) {
      again = false;
      for (Leg& leg : legs_) again = AdvanceLeg(leg) || again;
      again = AdvanceResult() || again;
    }
    const bool summed = std::all_of(legs_.begin(), legs_.end(),
                                    [&](const Leg& leg) { return leg.summed == pieces_; });
    return summed && way_.here == (way_.from < 0 ? pieces_ : way_.pieces.size());
  };
  DDPRUN_TRY(link_.WaitUntil(operation_, advance));
  return link_.AwaitAll(operation_);
}

bool MultiNodeChain::AdvanceLeg(Leg& leg) {
  bool moved = false;
  while (leg.posted < pieces_ && leg.posted < leg.freed + kWireWindow) {
    if (!leg.first) {
      leg.receives[leg.posted % kWireWindow] =
          link_.Receive(leg.from, WireStream::kPartial, Number(leg.number), Buffer(leg, leg.posted),
                        PartialBytes(PlaceOf(leg.posted).bytes));
    }
    ++leg.posted;
    moved = true;
  }
  while (leg.summed < leg.posted) {
    const NodeLink::Handle& receive = leg.receives[leg.summed % kWireWindow];
    if (!leg.first && !receive->done.load(std::memory_order_acquire)) break;
    if (!leg.first && !receive->status.ok()) break;
    Sum(leg, leg.summed);
    ++leg.summed;
    moved = true;
  }
  while (leg.freed < leg.summed) {
    const NodeLink::Handle& sent = leg.sends[leg.freed % kWireWindow];
    if (sent != nullptr && !sent->done.load(std::memory_order_acquire)) break;
    ++leg.freed;
    moved = true;
  }
  return moved;
}

void MultiNodeChain::Sum(Leg& leg, size_t piece) {
  const Place place = PlaceOf(piece);
  std::byte* const buffer = Buffer(leg, piece);
  NodeLink::Handle& sent = leg.sends[piece % kWireWindow];
  std::vector<const std::byte*> sources;
  for (const int local : leg.locals) sources.push_back(Source(local, place));
  const PartialReduction work{.type = operation_.type(),
                              .reduction = operation_.reduction(),
                              .before = leg.first ? nullptr : buffer,
                              .sources = sources,
                              .count = place.bytes / SizeOf(operation_.type())};
  if (!leg.last) {
    FoldArrays(work, buffer);
    sent = link_.Send(leg.to, WireStream::kPartial, Number(leg.number + 1), buffer,
                      PartialBytes(place.bytes));
    return;
  }
  const bool leaves = scatters_ && !OnThisNode(piece);
  std::vector<std::byte*> destinations;
  if (leaves) {
    destinations = {buffer};  // a stored element is not longer than an accumulated one
  } else if (scatters_) {
    destinations = {Result(placement_.LocalOf(place.row), place)};
  } else {
    for (size_t local = 0; local < rows_.size(); ++local) {
      destinations.push_back(Result(static_cast<int>(local), place));
    }
  }
  FinishArrays(work, placement_.size(), destinations);
  sent = leaves ? link_.Send(placement_.Counterpart(placement_.NodeOf(place.row)),
                             WireStream::kResult, Number(0), buffer, place.bytes)
                : nullptr;
}

// Receives the pieces of the result. On the last leg's node they are the pieces that it has summed.
bool MultiNodeChain::AdvanceResult() {
  bool moved = false;
  const int self = placement_.LocalOf(placement_.rank());
  for (; way_.posted < way_.pieces.size() && way_.posted < way_.here + kWireWindow; ++way_.posted) {
    const Place place = PlaceOf(way_.pieces[way_.posted]);
    const int local = scatters_ ? placement_.LocalOf(place.row) : self;
    way_.receives[way_.posted] =
        link_.Receive(way_.from, WireStream::kResult, Number(0), Result(local, place), place.bytes);
    moved = true;
  }
  const size_t wanted = way_.from < 0 ? pieces_ : way_.pieces.size();
  for (; way_.here < wanted; ++way_.here) {
    if (way_.from < 0) {
      if (way_.here == legs_.back().summed) break;
    } else {
      if (way_.here == way_.posted) break;
      const NodeLink::Handle& receive = way_.receives[way_.here];
      if (!receive->done.load(std::memory_order_acquire) || !receive->status.ok()) break;
    }
    if (!scatters_) Distribute(way_.here);
    moved = true;
  }
  return moved;
}

// Copies a piece of the result to the other ranks of this node, and sends it to the next node.
void MultiNodeChain::Distribute(size_t piece) {
  const Place place = PlaceOf(piece);
  const int self = placement_.LocalOf(placement_.rank());
  const std::byte* const own = Result(self, place);
  for (int local = 0; way_.from >= 0 && local < static_cast<int>(rows_.size()); ++local) {
    if (local != self) std::memcpy(Result(local, place), own, place.bytes);
  }
  if (way_.to >= 0) link_.Send(way_.to, WireStream::kResult, Number(0), own, place.bytes);
}

}  // namespace ddprun::trainer
