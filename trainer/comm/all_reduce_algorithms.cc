// The textbook algorithms for an all-reduce, to be measured beside the default. They work in shared
// memory: a rank "sends" by letting its neighbour read.
#include <cstring>

#include "trainer/comm/chunk.h"
#include "trainer/comm/node_group.h"
#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

// Each method works on one piece of the data, which is in place on all ranks.
struct NodeGroup::Study {
  NodeGroup& group;
  const Operation& operation;

  Status ReduceThenBroadcast(size_t begin, size_t bytes);
  Status FetchAllAndSum(size_t begin, size_t bytes);
  Status PassAroundRing(size_t begin, size_t bytes);
};

Status NodeGroup::AllReduceBy(AllReduceAlgorithm algorithm, Operation& operation, void* data) {
  operation.header.algorithm = static_cast<uint32_t>(algorithm);
  // Small data is placed in the heap, too, because through the slots all algorithms would do the
  // same.
  if (operation.header.bytes <= kSlotBytes) Place(operation.header, data, operation.header.bytes);
  Study study{*this, operation};
  return InPieces(operation, data, true, [&](size_t begin, size_t bytes) -> Status {
    switch (algorithm) {
      case AllReduceAlgorithm::kDirect:
        break;
      case AllReduceAlgorithm::kReduceBroadcast:
        return study.ReduceThenBroadcast(begin, bytes);
      case AllReduceAlgorithm::kAllToAll:
        return study.FetchAllAndSum(begin, bytes);
      case AllReduceAlgorithm::kRing:
        return study.PassAroundRing(begin, bytes);
    }
    return {};
  });
}

Status NodeGroup::Study::ReduceThenBroadcast(size_t begin, size_t bytes) {
  const std::vector<std::byte*> pieces = group.Pieces(begin);
  const bool root = group.rank() == 0;
  if (root) {
    const std::vector<const std::byte*> sources(pieces.begin(), pieces.end());
    ReduceArrays(operation.type(), operation.reduction(), sources, {pieces.data(), 1},
                 bytes / SizeOf(operation.type()));
  }
  DDPRUN_TRY(group.Meet(operation));
  if (!root) std::memcpy(pieces[static_cast<size_t>(group.rank())], pieces[0], bytes);
  return {};
}

// Works in blocks, so that a rank overwrites a block of the input only when all ranks have read it.
Status NodeGroup::Study::FetchAllAndSum(size_t begin, size_t bytes) {
  const std::vector<std::byte*> pieces = group.Pieces(begin);
  std::vector<std::byte> sum(std::min(bytes, kStagingBytes));
  std::vector<const std::byte*> sources(pieces.size());
  std::byte* const result = sum.data();
  for (size_t at = 0; at < bytes; at += sum.size()) {
    const size_t block = std::min(sum.size(), bytes - at);
    for (size_t i = 0; i < pieces.size(); ++i) sources[i] = pieces[i] + at;
    ReduceArrays(operation.type(), operation.reduction(), sources, {&result, 1},
                 block / SizeOf(operation.type()));
    DDPRUN_TRY(group.Meet(operation));
    std::memcpy(pieces[static_cast<size_t>(group.rank())] + at, result, block);
  }
  return {};
}

// A reduce-scatter around the ring: in each step, a rank adds its own part to the sum that its left
// neighbour has so far. Part c starts at rank c and is complete at rank c - 1. Then the complete
// parts go around in the same way.
Status NodeGroup::Study::PassAroundRing(size_t begin, size_t bytes) {
  const int n = group.size();
  if (n == 1) return {};
  const int rank = group.rank();
  std::byte* const own = group.PieceOf(rank, begin);
  const std::byte* const left = group.PieceOf((rank + n - 1) % n, begin);
  // Only the last step divides averages.
  const Reduction step_reduction =
      operation.reduction() == Reduction::kAvg ? Reduction::kSum : operation.reduction();
  for (int step = 0; step < n - 1; ++step) {
    const Chunk chunk = ChunkOf(bytes, (rank + 2 * n - step - 1) % n, n);
    const size_t count = chunk.size() / SizeOf(operation.type());
    std::byte* const mine = own + chunk.begin;
    const std::byte* const sources[] = {left + chunk.begin, mine};
    FinishArrays({.type = operation.type(),
                  .reduction = step == n - 2 ? operation.reduction() : step_reduction,
                  .sources = sources,
                  .count = count},
                 n, {&mine, 1});
    DDPRUN_TRY(group.Meet(operation));
  }
  for (int step = 0; step < n - 1; ++step) {
    const Chunk chunk = ChunkOf(bytes, (rank + n - step) % n, n);
    std::memcpy(own + chunk.begin, left + chunk.begin, chunk.size());
    DDPRUN_TRY(group.Meet(operation));
  }
  return {};
}

}  // namespace ddprun::trainer
