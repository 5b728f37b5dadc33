#include "trainer/comm/node_meeting.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "trainer/comm/meeting_errors.h"
#include "trainer/comm/packed_error.h"

namespace ddprun::trainer {

namespace {

// Time after the deadline for a rank that failed at the deadline to share its error.
constexpr std::chrono::milliseconds kGrace{2000};

}  // namespace

NodeMeeting::NodeMeeting(SharedRegion& region, Options options)
    : region_(region), options_(std::move(options)) {
  mine().heap_generation = region_.heap_generation();
}

NodeMeeting::~NodeMeeting() {
  if (staging_ != nullptr) region_.Free(options_.rank, staging_);
}

std::byte* NodeMeeting::Staging() {
  if (staging_ == nullptr) staging_ = region_.Allocate(options_.rank, options_.staging_bytes);
  DDPRUN_CHECK(staging_ != nullptr);
  return staging_;
}

NodeOperation NodeMeeting::Begin(CollectiveKind kind,
                                 const void* data,
                                 size_t bytes,
                                 Clock::time_point deadline,
                                 std::optional<size_t> own_bytes) {
  ++sequence_;
  NodeOperation operation{.header = {},
                          .deadline = deadline,
                          .recording = Recording(options_.recorder, std::exchange(ticket_, 0))};
  OperationHeader& header = operation.header;
  header.sequence = sequence_;
  header.kind = static_cast<uint32_t>(kind);
  header.bytes = bytes;
  if (bytes > kSlotBytes) Place(header, data, own_bytes.value_or(bytes));  // else: through slots
  return operation;
}

void NodeMeeting::Place(OperationHeader& header, const void* data, size_t bytes) {
  int64_t offset = region_.HeapOffset(options_.rank, data, bytes);
  header.direct = offset >= 0 ? 1 : 0;
  if (offset < 0) offset = region_.HeapOffset(options_.rank, Staging(), options_.staging_bytes);
  header.heap_offset = static_cast<uint64_t>(offset);
}

int NodeMeeting::NameOf(int rank) const {
  return options_.names.empty() ? rank : options_.names[static_cast<size_t>(rank)];
}

Status NodeMeeting::Meet(const NodeOperation& operation, Clock::time_point deadline) {
  AdvanceAndWake(mine().arrived, mine().sleepers, ++phase_);
  operation.recording.SetWaiting(true);
  // A rank that is lost or has given up was in all meetings before the first one that it missed. So
  // all living ranks fail in that meeting, and may wait for each other until then.
  for (int rank = 0; rank < size() && !lost_; ++rank) {
    if (rank == options_.rank) continue;
    ControlBlock& peer = region_.control(rank);
    if (HasReached(peer.arrived.load(std::memory_order_acquire), phase_)) continue;
    const Status came = WaitFor(rank, peer.arrived, peer.sleepers, phase_, operation, deadline);
    // A lost rank may have arrived before it died.
    if (came.ok() || HasReached(peer.arrived, phase_)) continue;
    if (came.error().code == Code::kRankLost) lost_ = rank;
    operation.recording.Fail();
    return came;
  }
  if (lost_) {
    operation.recording.Fail();
    return RankLost(NameOf(options_.rank), NameOf(*lost_), Describe(operation.header));
  }
  operation.recording.SetWaiting(false);
  return phase_ == 1 ? region_.MapHeaps() : Status();
}

Status NodeMeeting::MeetAndCompare(const NodeOperation& operation) {
  if (!lost_) mine().headers[sequence_ % 2] = operation.header;
  operation.recording.Start(ForRecorder(operation.header, options_.group));
  options_.on_begin(operation.header, cancelled_);
  DDPRUN_TRY(Meet(operation));
  for (int rank = 0; rank < size(); ++rank) {
    if (SameOperation(header(rank), operation.header)) continue;
    operation.recording.Fail();
    return MismatchedCollectives(NameOf(options_.rank), operation.header, NameOf(rank),
                                 header(rank));
  }
  return {};
}

Status NodeMeeting::MeetAndShare(const NodeOperation& operation, const Status& own) {
  ControlBlock& block = mine();
  if (!own.ok()) {
    operation.recording.Fail();
    const std::string packed = PackError(own.error());
    std::memcpy(block.failure, packed.data(), packed.size());
    block.failure_bytes = packed.size();
    block.failed_sequence = sequence_;
    AdvanceAndWake(block.arrived, block.sleepers, ++phase_);
    return own;
  }
  DDPRUN_TRY(Meet(operation, operation.deadline + kGrace));
  for (int rank = 0; rank < size(); ++rank) {
    const ControlBlock& other = region_.control(rank);
    if (other.failed_sequence != sequence_) continue;
    operation.recording.Fail();
    Error error = AddReporter(NameOf(rank), UnpackError({other.failure, other.failure_bytes}));
    error.where = "rank " + std::to_string(NameOf(options_.rank));
    return error;
  }
  return {};
}

Error NodeMeeting::TimedOut(const NodeOperation& operation) {
  std::vector<int> missing, present;
  for (int rank = 0; rank < size(); ++rank) {
    const bool here = HasReached(region_.control(rank).arrived.load(), phase_);
    (here ? present : missing).push_back(NameOf(rank));
  }
  return CollectiveTimedOut(NameOf(options_.rank), operation, missing, present);
}

bool NodeMeeting::IsLost(int rank) const {
  return region_.control(rank).given_up || options_.losses.EndsWaitFor(rank);
}

Status NodeMeeting::WaitFor(int rank,
                            std::atomic<uint32_t>& word,
                            std::atomic<uint32_t>& sleepers,
                            uint32_t target,
                            const NodeOperation& operation,
                            Clock::time_point deadline) {
  const WaitLimits limits{deadline, options_.spin, cancelled_,
                          [this, rank] { return IsLost(rank); }};
  if (WaitUntilReached(word, sleepers, target, limits)) return {};
  if (IsLost(rank)) {
    return RankLost(NameOf(options_.rank), NameOf(rank), Describe(operation.header));
  }
  return cancelled_ ? CollectiveCancelled(NameOf(options_.rank), operation) : TimedOut(operation);
}

bool NodeMeeting::AnyStaged(int first, int last) {
  while (first < last && header(first).direct != 0) ++first;
  return first < last;
}

std::vector<std::byte*> NodeMeeting::Pieces(size_t begin) {
  std::vector<std::byte*> pieces;
  for (int rank = 0; rank < size(); ++rank) pieces.push_back(PieceOf(rank, begin));
  return pieces;
}

std::byte* NodeMeeting::PieceOf(int rank, size_t begin) {
  const OperationHeader& theirs = header(rank);
  return region_.heap(rank) + theirs.heap_offset + (theirs.direct != 0 ? begin : 0);
}

}  // namespace ddprun::trainer
