#include "trainer/comm/node_stream.h"

#include <algorithm>
#include <cstring>

namespace ddprun::trainer {

// Streams through the root's staging memory, a ring of pieces that the root fills and other ranks
// empty. Ranks that do not take wait at the end of the stream, because on a busy machine they would
// slow down the others.
Status StreamOnNode(NodeMeeting& node,
                    int root,
                    bool takes,
                    std::chrono::milliseconds timeout,
                    const UseStream& use) {
  constexpr uint32_t kPieces = 4;
  const bool gives = node.self() == root;
  NodeOperation operation =
      node.Begin(CollectiveKind::kBroadcast, nullptr, 0, Clock::now() + timeout);
  operation.header.root = static_cast<uint32_t>(root);
  node.Place(operation.header, nullptr, 0);
  ControlBlock& own = node.region().control(node.self());
  const uint32_t begin = own.passed.load();
  const uint32_t end = begin + (uint32_t{1} << 30);  // more pieces than there will ever be
  const auto advance = [&](uint32_t to) { AdvanceAndWake(own.passed, own.passed_sleepers, to); };
  const auto wait_for = [&](int rank, uint32_t number) -> Status {
    ControlBlock& peer = node.region().control(rank);
    return node.WaitFor(rank, peer.passed, peer.passed_sleepers, number, operation,
                        Clock::now() + timeout);
  };
  // Waits until all other ranks have emptied a piece, so that the root may fill it. Ranks that do
  // not take have advanced to the end at once.
  const auto others_have = [&](uint32_t number) -> Status {
    for (int rank = 0; rank < node.size(); ++rank) {
      if (rank != node.self()) DDPRUN_TRY(wait_for(rank, number));
    }
    return {};
  };
  const size_t capacity = node.staging_bytes() / kPieces;
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
      std::byte* const piece =
          node.PieceOf(root, 0) + number % kPieces * capacity + (capacity - left);
      const size_t count = std::min(bytes, left);
      std::memcpy(gives ? piece : at, gives ? at : piece, count);
      at += count;
      bytes -= count;
      left -= count;
    }
    return {};
  };
  if (!gives && !takes) advance(end);
  DDPRUN_TRY(node.MeetAndCompare(operation));
  const Status passed = use(pass);
  advance(end);
  operation.deadline = Clock::now() + timeout;
  const Status met = node.Meet(operation);  // afterwards the staging memory may be reused
  return passed.ok() ? met : passed;
}

}  // namespace ddprun::trainer
