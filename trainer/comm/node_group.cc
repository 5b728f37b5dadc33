#include "trainer/comm/node_group.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "trainer/comm/all_reduce_algorithms.h"
#include "trainer/comm/chunk.h"
#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

Status NodeGroup::AllReduce(void* data,
                            size_t count,
                            DataType type,
                            Reduction reduction,
                            Clock::time_point deadline,
                            AllReduceAlgorithm algorithm) {
  const size_t bytes = count * SizeOf(type);
  NodeOperation operation = Begin(CollectiveKind::kAllReduce, data, bytes, deadline);
  operation.SetReduction(type, reduction);
  if (algorithm != AllReduceAlgorithm::kDirect) {
    operation.header.algorithm = static_cast<uint32_t>(algorithm);
    // Small data is in the heap, too, because through the slots all algorithms would do the same.
    if (bytes <= kSlotBytes) Place(operation.header, data, bytes);
    return InPieces(operation, data, true, [&](size_t begin, size_t piece) {
      return AllReducePiece(algorithm, *this, operation, begin, piece);
    });
  }
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
  NodeOperation operation = Begin(CollectiveKind::kReduce, data, bytes, deadline);
  operation.SetReduction(type, reduction);
  operation.header.root = static_cast<uint32_t>(root);
  if (bytes <= kSlotBytes) return ReduceThroughSlots(operation, data, count, self() == root);
  return ReduceLarge(operation, data, root);
}

// Every rank sums all data itself, because this costs more arithmetic but only one meeting instead
// of two. A rank may write its slot again two operations later, because all ranks have met in
// between, after reading it.
Status NodeGroup::ReduceThroughSlots(const NodeOperation& operation,
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

Status NodeGroup::InPieces(const NodeOperation& operation,
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
    // One rank that stages makes all go piece by piece; the others then work in place.
    const size_t piece = AnyStaged(0, size()) ? std::min(staging_bytes(), rest) : rest;
    DDPRUN_TRY(work(begin, piece));
    DDPRUN_TRY(Meet(operation));
    if (staged && receives && piece > 0) std::memcpy(own + begin, Staging(), piece);
    begin += piece;
  } while (begin < bytes);
  return {};
}

// Every rank sums its chunk over all ranks, and writes the result to all of them or to the root.
Status NodeGroup::ReduceLarge(const NodeOperation& operation, void* data, std::optional<int> root) {
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

// Streams through the root's staging memory, a ring of pieces that the root fills and other ranks
// empty. Ranks that do not take wait at the end of the stream, because on a busy machine they would
// slow down the others.
Status NodeGroup::Stream(int root,
                         bool takes,
                         std::chrono::milliseconds timeout,
                         const std::function<Status(const PassBytes& pass)>& use) {
  constexpr uint32_t kPieces = 4;
  const bool gives = self() == root;
  NodeOperation operation = Begin(CollectiveKind::kBroadcast, nullptr, 0, Clock::now() + timeout);
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

Status NodeGroup::ShareRows(NodeOperation& operation,
                            const RankRows& rows,
                            const void* input,
                            const Collect& collect) {
  const int first = rows.giver.value_or(0);
  const int last = rows.giver ? first + 1 : size();
  const bool gives = rows.Gives(self());
  const auto put = [&](std::byte* to, size_t begin, size_t stride) {
    for (int row = 0; row < rows.count(); ++row) {
      const size_t length = rows.Length(self(), row, begin, stride);
      if (length == 0) continue;
      const auto* own = static_cast<const std::byte*>(input) + rows.Offset(self(), row);
      std::memcpy(to + static_cast<size_t>(row) * stride, own + begin, length);
    }
  };
  if (operation.header.bytes <= kSlotBytes) {
    if (gives) put(Slot(self()), 0, rows.width);
    DDPRUN_TRY(MeetAndCompare(operation));
    collect(0, rows.width, [&](int rank, int row) -> const std::byte* {
      return Slot(rank) + static_cast<size_t>(row) * rows.width;
    });
    return {};
  }
  const size_t stride =
      staging_bytes() / static_cast<size_t>(rows.count()) / kLineBytes * kLineBytes;
  const bool staged = gives && operation.header.direct == 0;
  size_t columns = 0;
  for (size_t begin = 0; begin < rows.width; begin += columns) {
    if (staged) put(Staging(), begin, stride);
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    columns = AnyStaged(first, last) ? std::min(stride, rows.width - begin) : rows.width;
    collect(begin, columns, [&](int rank, int row) -> const std::byte* {
      const OperationHeader& theirs = header(rank);
      const std::byte* data = region().heap(rank) + theirs.heap_offset;
      if (theirs.direct == 0) return data + static_cast<size_t>(row) * stride;
      return data + rows.Offset(rank, row) + begin;
    });
    DDPRUN_TRY(Meet(operation));  // the sources may change after this meeting
  }
  return {};
}

}  // namespace ddprun::trainer
