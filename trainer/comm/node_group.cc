#include "trainer/comm/node_group.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "trainer/comm/all_reduce_algorithms.h"
#include "trainer/comm/chunk.h"
#include "trainer/comm/node_rows.h"
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
  if (IsTextbook(algorithm)) {
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

Status NodeGroup::ShareRows(NodeOperation& operation,
                            const RankRows& rows,
                            const void* input,
                            const CollectRows& collect) {
  return ShareRowsOnNode(*this, operation, rows, input, collect);
}

}  // namespace ddprun::trainer
