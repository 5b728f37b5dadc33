#include "trainer/comm/multi_node_chain.h"

#include <algorithm>
#include <cstring>

#include "trainer/comm/chunk.h"
#include "trainer/comm/reduce_partial.h"

namespace ddprun::trainer {

namespace {

// Small enough that the first piece is soon at the last node, large enough that a message's own
// cost does not show. Between two hosts at 1 Gbit/s 4 times 64 KiB was faster than 8 times 256 KiB:
// what is under way is shared out among the pieces, so the first one comes later.
constexpr size_t kMostPieceBytes = size_t{64} << 10;
constexpr size_t kLeastPieceBytes = size_t{16} << 10;
constexpr size_t kPiecesWanted = 16;
// Pieces of a leg under way: what the network holds, and what is being summed meanwhile.
constexpr size_t kWindow = 4;

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
    leg.receives.resize(kWindow);
    leg.sends.resize(kWindow);
    legs_.push_back(std::move(leg));
  }
  const std::vector<int>& back = placement_.way_back();
  const auto here = std::find(back.begin(), back.end(), placement_.node());
  if (here != back.begin()) way_.from = placement_.Counterpart(*(here - 1));
  if (here + 1 != back.end()) way_.to = placement_.Counterpart(*(here + 1));
}

uint32_t MultiNodeChain::Number(size_t leg) const {
  return static_cast<uint32_t>(operation_.header.sequence << 12 | leg);
}

size_t MultiNodeChain::PieceSize(size_t piece) const {
  return std::min(piece_bytes_, bytes_ - piece * piece_bytes_);
}

size_t MultiNodeChain::PartialBytes(size_t piece) const {
  return PieceSize(piece) / SizeOf(operation_.type()) * PartialSizeOf(operation_.type());
}

void MultiNodeChain::Prepare(size_t bytes) {
  bytes_ = bytes;
  const size_t wanted = (bytes / kPiecesWanted + kLineBytes - 1) / kLineBytes * kLineBytes;
  piece_bytes_ = std::clamp(wanted, kLeastPieceBytes, kMostPieceBytes);
  pieces_ = (bytes + piece_bytes_ - 1) / piece_bytes_;
  const size_t slot_bytes =
      piece_bytes_ / SizeOf(operation_.type()) * PartialSizeOf(operation_.type());
  const size_t ring_bytes = slot_bytes * kWindow;
  if (buffer_.size() < ring_bytes * legs_.size()) buffer_.resize(ring_bytes * legs_.size());
  for (size_t i = 0; i < legs_.size(); ++i) legs_[i].buffers = buffer_.data() + i * ring_bytes;
  way_.receives.resize(way_.from < 0 ? 0 : pieces_);
}

Status MultiNodeChain::Run(std::span<std::byte* const> arrays, size_t bytes) {
  arrays_ = arrays;
  Prepare(bytes);
  const auto advance = [&] {
    bool again = true;
    while (again) {
      again = false;
      for (Leg& leg : legs_) again = AdvanceLeg(leg) || again;
      again = AdvanceResult() || again;
    }
    return way_.here == pieces_;
  };
  DDPRUN_TRY(link_.WaitUntil(operation_, advance));
  return link_.AwaitAll(operation_);
}

bool MultiNodeChain::AdvanceLeg(Leg& leg) {
  bool moved = false;
  const size_t slot_bytes =
      piece_bytes_ / SizeOf(operation_.type()) * PartialSizeOf(operation_.type());
  while (leg.posted < pieces_ && leg.posted < leg.freed + kWindow) {
    if (!leg.first) {
      leg.receives[leg.posted % kWindow] =
          link_.Receive(leg.from, WireStream::kPartial, Number(leg.number),
                        leg.buffers + leg.posted % kWindow * slot_bytes, PartialBytes(leg.posted));
    }
    ++leg.posted;
    moved = true;
  }
  while (leg.summed < leg.posted) {
    const size_t slot = leg.summed % kWindow;
    if (!leg.first && !leg.receives[slot]->done.load(std::memory_order_acquire)) break;
    if (!leg.first && !leg.receives[slot]->status.ok()) break;
    std::byte* const buffer = leg.buffers + slot * slot_bytes;
    Sum(leg, leg.summed);
    if (!leg.last) {
      leg.sends[slot] = link_.Send(leg.to, WireStream::kPartial, Number(leg.number + 1), buffer,
                                   PartialBytes(leg.summed));
    }
    ++leg.summed;
    moved = true;
  }
  while (leg.freed < leg.summed) {
    const NodeLink::Handle& sent = leg.sends[leg.freed % kWindow];
    if (!leg.last && !sent->done.load(std::memory_order_acquire)) break;
    ++leg.freed;
    moved = true;
  }
  return moved;
}

void MultiNodeChain::Sum(Leg& leg, size_t piece) {
  const size_t begin = piece * piece_bytes_;
  std::byte* const buffer = leg.buffers + piece % kWindow * piece_bytes_ /
                                              SizeOf(operation_.type()) *
                                              PartialSizeOf(operation_.type());
  std::vector<const std::byte*> sources;
  for (const int local : leg.locals) {
    sources.push_back(arrays_[static_cast<size_t>(local)] + begin);
  }
  const PartialReduction work{.type = operation_.type(),
                              .reduction = operation_.reduction(),
                              .before = leg.first ? nullptr : buffer,
                              .sources = sources,
                              .count = PieceSize(piece) / SizeOf(operation_.type())};
  if (!leg.last) return FoldArrays(work, buffer);
  std::vector<std::byte*> destinations;
  for (std::byte* array : arrays_) destinations.push_back(array + begin);
  FinishArrays(work, placement_.size(), destinations);
}

// The result's pieces that are complete here: on the last leg's node those that it has summed.
bool MultiNodeChain::AdvanceResult() {
  bool moved = false;
  const size_t own = static_cast<size_t>(placement_.LocalOf(placement_.rank()));
  if (way_.from >= 0) {
    for (; way_.posted < pieces_ && way_.posted < way_.here + kWindow; ++way_.posted) {
      way_.receives[way_.posted] =
          link_.Receive(way_.from, WireStream::kResult, Number(0),
                        arrays_[own] + way_.posted * piece_bytes_, PieceSize(way_.posted));
      moved = true;
    }
  }
  for (; way_.here < pieces_; ++way_.here) {
    const size_t begin = way_.here * piece_bytes_;
    if (way_.from < 0) {
      if (way_.here == legs_.back().summed) break;
    } else {
      if (way_.here == way_.posted) break;
      const NodeLink::Handle& receive = way_.receives[way_.here];
      if (!receive->done.load(std::memory_order_acquire) || !receive->status.ok()) break;
      for (size_t local = 0; local < arrays_.size(); ++local) {
        if (local == own) continue;
        std::memcpy(arrays_[local] + begin, arrays_[own] + begin, PieceSize(way_.here));
      }
    }
    if (way_.to >= 0) {
      link_.Send(way_.to, WireStream::kResult, Number(0), arrays_[own] + begin,
                 PieceSize(way_.here));
    }
    moved = true;
  }
  return moved;
}

}  // namespace ddprun::trainer
