#include "trainer/comm/node_group.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "trainer/comm/chunk.h"
#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

Status NodeGroup::Barrier(Clock::time_point deadline) {
  return MeetAndCompare(Begin(Kind::kBarrier, nullptr, 0, deadline));
}

Status NodeGroup::AllReduce(void* data,
                            size_t count,
                            DataType type,
                            Reduction reduction,
                            Clock::time_point deadline,
                            AllReduceAlgorithm algorithm) {
  const size_t bytes = count * SizeOf(type);
  Operation operation = Begin(Kind::kAllReduce, data, bytes, deadline);
  operation.header.type = static_cast<uint32_t>(type);
  operation.header.reduction = static_cast<uint32_t>(reduction);
  if (algorithm != AllReduceAlgorithm::kDirect) return AllReduceBy(algorithm, operation, data);
  if (bytes <= kSlotBytes) return ReduceThroughSlots(operation, data, count, true);
  return ReduceLarge(operation, data, {});
}

Status NodeGroup::Reduce(void* data,
                         size_t count,
                         DataType type,
                         Reduction reduction,
                         int root,
                         Clock::time_point deadline) {
  DDPRUN_CHECK(root >= 0 && root < size());
  const size_t bytes = count * SizeOf(type);
  Operation operation = Begin(Kind::kReduce, data, bytes, deadline);
  operation.header.type = static_cast<uint32_t>(type);
  operation.header.reduction = static_cast<uint32_t>(reduction);
  operation.header.root = static_cast<uint32_t>(root);
  if (bytes <= kSlotBytes) {
    return ReduceThroughSlots(operation, data, count, self() == root);
  }
  return ReduceLarge(operation, data, root);
}

// Every rank sums all data itself, because this costs more arithmetic but only one meeting instead
// of two. A rank may write its slot again two operations later, because all ranks have met in
// between, after reading it.
Status NodeGroup::ReduceThroughSlots(const Operation& operation,
                                     void* data,
                                     size_t count,
                                     bool receives) {
  // An empty tensor may have no memory.
  if (count > 0) std::memcpy(Slot(self()), data, operation.header.bytes);
  DDPRUN_TRY(MeetAndCompare(operation));
  if (!receives) return {};
  std::vector<const std::byte*> sources(static_cast<size_t>(size()));
  for (int rank = 0; rank < size(); ++rank) sources[static_cast<size_t>(rank)] = Slot(rank);
  std::byte* destination = static_cast<std::byte*>(data);
  ReduceArrays(operation.type(), operation.reduction(), sources, {&destination, 1}, count);
  return {};
}

Status NodeGroup::InPieces(const Operation& operation,
                           void* data,
                           bool receives,
                           const Work& work) {
  const size_t bytes = operation.header.bytes;
  std::byte* const own = static_cast<std::byte*>(data);
  const bool staged = operation.header.direct == 0;
  size_t begin = 0;
  do {
    const size_t rest = bytes - begin;
    if (staged && rest > 0) std::memcpy(Staging(), own + begin, std::min(staging_bytes(), rest));
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    const size_t piece = std::min(PieceBytes(bytes, 0, size()), rest);
    DDPRUN_TRY(work(begin, piece));
    DDPRUN_TRY(Meet(operation));
    if (staged && receives && piece > 0) std::memcpy(own + begin, Staging(), piece);
    begin += piece;
  } while (begin < bytes);
  return {};
}

// Every rank sums its chunk over all ranks, and writes the result to all of them or to the root.
Status NodeGroup::ReduceLarge(const Operation& operation, void* data, std::optional<int> root) {
  const bool receives = !root || *root == self();
  return InPieces(operation, data, receives, [&](size_t begin, size_t bytes) -> Status {
    const Chunk chunk = ChunkOf(bytes, self(), size());
    std::vector<std::byte*> chunks = Pieces(begin);
    for (std::byte*& piece : chunks) piece += chunk.begin;
    const std::vector<const std::byte*> sources(chunks.begin(), chunks.end());
    std::span<std::byte* const> destinations = chunks;
    if (root) destinations = destinations.subspan(static_cast<size_t>(*root), 1);
    ReduceArrays(operation.type(), operation.reduction(), sources, destinations,
                 chunk.size() / SizeOf(operation.type()));
    return {};
  });
}

Status NodeGroup::Broadcast(void* data, size_t bytes, int root, Clock::time_point deadline) {
  DDPRUN_CHECK(root >= 0 && root < size());
  Operation operation = Begin(Kind::kBroadcast, data, bytes, deadline);
  operation.header.root = static_cast<uint32_t>(root);
  return Copy(operation, data, data, root, root + 1);
}

// Streams through the root's staging memory, a ring of pieces that the root fills and other ranks
// empty. Ranks that do not take wait at the end of the stream, because on a busy machine they would
// slow down the others.
Status NodeGroup::Stream(int root,
                         bool takes,
                         std::chrono::milliseconds timeout,
                         const std::function<Status(const PassBytes& pass)>& use) {
  constexpr uint32_t kPieces = 4;
  const bool gives = self() == root;
  Operation operation = Begin(Kind::kBroadcast, nullptr, 0, Clock::now() + timeout);
  operation.header.root = static_cast<uint32_t>(root);
  Place(operation.header, nullptr, 0);
  ControlBlock& own = region().control(self());
  const uint32_t begin = own.passed.load();
  const uint32_t end = begin + (uint32_t{1} << 30);  // more pieces than there will ever be
  const auto advance = [&](uint32_t to) { AdvanceAndWake(own.passed, own.passed_sleepers, to); };
  const auto wait_for = [&](int rank, uint32_t number) -> Status {
    ControlBlock& peer = region().control(rank);
    return WaitFor(rank, peer.passed, peer.passed_sleepers, number, operation,
                   Clock::now() + timeout);
  };
  // Waits until all other ranks have emptied a piece, so that the root may fill it. Ranks that do
  // not take have advanced to the end at once.
  const auto others_have = [&](uint32_t number) -> Status {
    for (int rank = 0; rank < size(); ++rank) {
      if (rank != self()) DDPRUN_TRY(wait_for(rank, number));
    }
    return {};
  };
  const size_t capacity = staging_bytes() / kPieces;
  uint32_t number = begin;  // number of the current piece
  size_t left = 0;          // bytes left in the current piece
  const auto next_piece = [&]() -> Status {
    advance(number);
    ++number;
    left = capacity;
    return gives ? others_have(number - kPieces) : wait_for(root, number);
  };
  const auto pass = [&](void* data, size_t bytes) -> Status {
    auto* at = static_cast<std::byte*>(data);
    while ((gives || takes) && bytes > 0) {
      if (left == 0) DDPRUN_TRY(next_piece());
      std::byte* const piece = PieceOf(root, 0) + number % kPieces * capacity + (capacity - left);
      const size_t count = std::min(bytes, left);
      std::memcpy(gives ? piece : at, gives ? at : piece, count);
      at += count;
      bytes -= count;
      left -= count;
    }
    return {};
  };
  if (!gives && !takes) advance(end);
  DDPRUN_TRY(MeetAndCompare(operation));
  const Status passed = use(pass);
  advance(end);
  operation.deadline = Clock::now() + timeout;
  const Status met = Meet(operation);  // afterwards the staging memory may be reused
  return passed.ok() ? met : passed;
}

Status NodeGroup::AllGather(const void* input,
                            void* output,
                            size_t bytes,
                            Clock::time_point deadline) {
  const Operation operation = Begin(Kind::kAllGather, input, bytes, deadline);
  return Copy(operation, input, output, 0, size());
}

// Ranks [first, last) give their input. Each rank with an output collects the inputs, one after the
// other.
Status NodeGroup::Copy(
    const Operation& operation, const void* input, void* output, int first, int last) {
  const size_t bytes = operation.header.bytes;
  const auto* own = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const bool gives = self() >= first && self() < last;
  const auto collect = [&](size_t begin, size_t piece, auto&& source_of) {
    for (int rank = first; rank < last && out != nullptr; ++rank) {
      std::byte* destination = out + static_cast<size_t>(rank - first) * bytes + begin;
      const bool in_place = rank == self() && destination == own + begin;
      if (!in_place) std::memcpy(destination, source_of(rank), piece);
    }
  };

  if (bytes <= kSlotBytes) {
    if (gives && bytes > 0) std::memcpy(Slot(self()), own, bytes);
    DDPRUN_TRY(MeetAndCompare(operation));
    if (bytes > 0) collect(0, bytes, [&](int rank) { return Slot(rank); });
    return {};
  }
  const bool staged = gives && operation.header.direct == 0;
  size_t piece = 0;
  for (size_t begin = 0; begin < bytes; begin += piece) {
    if (staged) std::memcpy(Staging(), own + begin, std::min(staging_bytes(), bytes - begin));
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    piece = std::min(PieceBytes(bytes, first, last), bytes - begin);
    collect(begin, piece, [&](int rank) { return PieceOf(rank, begin); });
    DDPRUN_TRY(Meet(operation));  // the sources may change after this meeting
  }
  return {};
}

}  // namespace ddprun::trainer
