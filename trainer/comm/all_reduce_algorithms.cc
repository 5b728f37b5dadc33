#include "trainer/comm/all_reduce_algorithms.h"

#include <algorithm>
#include <cstring>

#include "trainer/comm/chunk.h"
#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

namespace {

Status ReduceThenBroadcast(NodeMeeting& ranks,
                           const NodeOperation& operation,
                           size_t begin,
                           size_t bytes) {
  const std::vector<std::byte*> pieces = ranks.Pieces(begin);
  const bool root = ranks.self() == 0;
  if (root) {
    const std::vector<const std::byte*> sources(pieces.begin(), pieces.end());
    ReduceArrays(operation.type(), operation.reduction(), sources, {pieces.data(), 1},
                 bytes / SizeOf(operation.type()));
  }
  DDPRUN_TRY(ranks.Meet(operation));
  if (!root) std::memcpy(pieces[static_cast<size_t>(ranks.self())], pieces[0], bytes);
  return {};
}

// Works in blocks, so that a rank overwrites a block of the input only when all ranks have read it.
Status FetchAllAndSum(NodeMeeting& ranks,
                      const NodeOperation& operation,
                      size_t begin,
                      size_t bytes) {
  const std::vector<std::byte*> pieces = ranks.Pieces(begin);
  std::vector<std::byte> sum(std::min(bytes, kStagingBytes));
  std::vector<const std::byte*> sources(pieces.size());
  std::byte* const result = sum.data();
  for (size_t at = 0; at < bytes; at += sum.size()) {
    const size_t block = std::min(sum.size(), bytes - at);
    for (size_t i = 0; i < pieces.size(); ++i) sources[i] = pieces[i] + at;
    ReduceArrays(operation.type(), operation.reduction(), sources, {&result, 1},
                 block / SizeOf(operation.type()));
    DDPRUN_TRY(ranks.Meet(operation));
    std::memcpy(pieces[static_cast<size_t>(ranks.self())] + at, result, block);
  }
  return {};
}

// A reduce-scatter around the ring: in each step, a rank adds its own part to the sum that its left
// neighbour has so far. Part c starts at rank c and is complete at rank c - 1. Then the complete
// parts go around in the same way.
Status PassAroundRing(NodeMeeting& ranks,
                      const NodeOperation& operation,
                      size_t begin,
                      size_t bytes) {
  const int n = ranks.size();
  if (n == 1) return {};
  const int rank = ranks.self();
  std::byte* const own = ranks.PieceOf(rank, begin);
  const std::byte* const left = ranks.PieceOf((rank + n - 1) % n, begin);
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
    DDPRUN_TRY(ranks.Meet(operation));
  }
  for (int step = 0; step < n - 1; ++step) {
    const Chunk chunk = ChunkOf(bytes, (rank + n - step) % n, n);
    std::memcpy(own + chunk.begin, left + chunk.begin, chunk.size());
    DDPRUN_TRY(ranks.Meet(operation));
  }
  return {};
}

}  // namespace

bool IsTextbook(AllReduceAlgorithm algorithm) {
  return algorithm != AllReduceAlgorithm::kDirect && algorithm != AllReduceAlgorithm::kHierarchical;
}

Status AllReducePiece(AllReduceAlgorithm algorithm,
                      NodeMeeting& ranks,
                      const NodeOperation& operation,
                      size_t begin,
                      size_t bytes) {
  switch (algorithm) {
    case AllReduceAlgorithm::kDirect:
    case AllReduceAlgorithm::kHierarchical:
      break;
    case AllReduceAlgorithm::kReduceBroadcast:
      return ReduceThenBroadcast(ranks, operation, begin, bytes);
    case AllReduceAlgorithm::kAllToAll:
      return FetchAllAndSum(ranks, operation, begin, bytes);
    case AllReduceAlgorithm::kRing:
      return PassAroundRing(ranks, operation, begin, bytes);
  }
  return {};
}

}  // namespace ddprun::trainer
