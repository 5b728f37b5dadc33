#include "trainer/comm/node_group.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

namespace {

// Chunks end at cache lines, so that no two ranks write to the same one.
constexpr size_t kLineBytes = 64;

struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

// The part of `bytes` that rank of size works on.
Range Chunk(size_t bytes, int rank, int size) {
  const size_t lines = (bytes + kLineBytes - 1) / kLineBytes;
  const size_t n = static_cast<size_t>(size);
  const size_t r = static_cast<size_t>(rank);
  return {std::min(bytes, lines * r / n * kLineBytes),
          std::min(bytes, lines * (r + 1) / n * kLineBytes)};
}

}  // namespace

NodeGroup::NodeGroup(SharedRegion& region, Options options) : region_(region), options_(options) {}

NodeGroup::~NodeGroup() {
  if (staging_ != nullptr) region_.Free(options_.rank, staging_);
}

std::byte* NodeGroup::Staging() {
  if (staging_ == nullptr) staging_ = region_.Allocate(options_.rank, kStagingBytes);
  DDPRUN_CHECK(staging_ != nullptr);
  return staging_;
}

NodeGroup::Operation NodeGroup::Begin(Kind kind,
                                      const void* data,
                                      size_t bytes,
                                      Clock::time_point deadline,
                                      std::optional<size_t> own_bytes) {
  ++sequence_;
  Operation operation{.header = {},
                      .deadline = deadline,
                      .recording = Recording(options_.recorder, std::exchange(ticket_, 0))};
  OperationHeader& header = operation.header;
  header.sequence = sequence_;
  header.kind = static_cast<uint32_t>(kind);
  header.bytes = bytes;
  if (bytes <= kSlotBytes) return operation;  // travels through the slots
  int64_t offset = region_.HeapOffset(options_.rank, data, own_bytes.value_or(bytes));
  header.direct = offset >= 0 ? 1 : 0;
  if (offset < 0) offset = region_.HeapOffset(options_.rank, Staging(), kStagingBytes);
  header.heap_offset = static_cast<uint64_t>(offset);
  return operation;
}

Status NodeGroup::Meet(const Operation& operation) {
  ControlBlock& own = mine();
  ++phase_;
  AdvanceAndWake(own.arrived, own.sleepers, phase_);
  operation.recording.SetWaiting(true);
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == options_.rank) continue;
    ControlBlock& peer = region_.control(rank);
    const WaitLimits limits{operation.deadline, options_.spin, cancelled_};
    if (!WaitUntilReached(peer.arrived, peer.sleepers, phase_, limits)) {
      operation.recording.Fail();
      return cancelled_ ? Cancelled(operation) : TimedOut(operation);
    }
  }
  operation.recording.SetWaiting(false);
  return {};
}

Status NodeGroup::MeetAndCompare(const Operation& operation) {
  mine().headers[sequence_ % 2] = operation.header;
  operation.recording.Start(ForRecorder(operation.header));
  DDPRUN_TRY(Meet(operation));
  for (int rank = 0; rank < size(); ++rank) {
    OperationHeader theirs = header(rank);
    theirs.direct = operation.header.direct;  // where the data lies is each rank's own affair
    theirs.heap_offset = operation.header.heap_offset;
    if (theirs == operation.header) continue;
    operation.recording.Fail();
    return Error{.code = Code::kFailed,
                 .title = "MISMATCHED COLLECTIVES",
                 .where = "rank " + std::to_string(options_.rank),
                 .what = "Rank " + std::to_string(options_.rank) + " is at " +
                         Describe(operation.header) + ",\nbut rank " + std::to_string(rank) +
                         " is at " + Describe(theirs) + ".",
                 .hint =
                     "All ranks must call the same collectives, in the same order, with "
                     "tensors of the same size and type.",
                 .page = "mismatched-collectives"};
  }
  return {};
}

std::string NodeGroup::Describe(const OperationHeader& header) {
  const std::string number = " number " + std::to_string(header.sequence);
  const std::string root = std::to_string(header.root);
  const auto bytes = [&](const std::string& whose) {
    return " (" + std::to_string(header.bytes) + " bytes" + whose + ")";
  };
  const auto reduction = [&](const std::string& to) {
    const DataType type = static_cast<DataType>(header.type);
    return " (" + std::string(NameOf(static_cast<Reduction>(header.reduction))) + " of " +
           std::to_string(header.bytes / SizeOf(type)) + " " + std::string(NameOf(type)) + to + ")";
  };
  switch (static_cast<Kind>(header.kind)) {
    case Kind::kAllReduce:
      return "all_reduce" + number + reduction("");
    case Kind::kReduce:
      return "reduce" + number + reduction(" to rank " + root);
    case Kind::kReduceScatter:
      return "reduce_scatter" + number + reduction(", a part for each rank");
    case Kind::kBroadcast:
      return "broadcast" + number + bytes(" from rank " + root);
    case Kind::kAllGather:
      return "all_gather" + number + bytes(" of each rank");
    case Kind::kGather:
      return "gather" + number + bytes(" of each rank to rank " + root);
    case Kind::kScatter:
      return "scatter" + number + bytes(" from rank " + root);
    case Kind::kAllToAll:
      return "all_to_all" + number + bytes(" of each rank");
    case Kind::kBarrier:
      return "barrier" + number;
    case Kind::kOther:
      break;
  }
  return "an unknown operation" + number;
}

Collective NodeGroup::ForRecorder(const OperationHeader& header) {
  const auto kind = static_cast<Kind>(header.kind);
  Collective collective{.kind = kind, .number = header.sequence, .bytes = header.bytes};
  if (kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter) {
    const auto type = static_cast<DataType>(header.type);
    collective.type = NameOf(type);
    collective.elements = header.bytes / SizeOf(type);
  }
  return collective;
}

Error NodeGroup::TimedOut(const Operation& operation) {
  std::string missing;
  std::string present;
  for (int rank = 0; rank < size(); ++rank) {
    const bool here = HasReached(region_.control(rank).arrived.load(), phase_);
    std::string& list = here ? present : missing;
    list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  const std::string where = operation.recording.Whereabouts();
  return Error{.code = Code::kDeadlineExceeded,
               .title = "COLLECTIVE TIMED OUT",
               .where = "rank " + std::to_string(options_.rank),
               .what = "These ranks did not come to " + Describe(operation.header) +
                       (where.empty() ? "" : " of " + where) + " in time: " + missing +
                       ".\nThese are waiting in it: " + present + ".",
               .hint =
                   "Look at the log of the missing ranks. If they are only slow, raise "
                   "comm.train_timeout_seconds.",
               .page = "collective-timed-out"};
}

Error NodeGroup::Cancelled(const Operation& operation) {
  return Error{
      .code = Code::kFailed,
      .title = "COLLECTIVE CANCELLED",
      .where = "rank " + std::to_string(options_.rank),
      .what = "This process gave up while it waited in " + Describe(operation.header) + ".",
      .hint = "",
      .page = "collective-cancelled"};
}

Status NodeGroup::Barrier(Clock::time_point deadline) {
  return MeetAndCompare(Begin(Kind::kBarrier, nullptr, 0, deadline));
}

Status NodeGroup::AllReduce(
    void* data, size_t count, DataType type, Reduction reduction, Clock::time_point deadline) {
  const size_t bytes = count * SizeOf(type);
  Operation operation = Begin(Kind::kAllReduce, data, bytes, deadline);
  operation.header.type = static_cast<uint32_t>(type);
  operation.header.reduction = static_cast<uint32_t>(reduction);
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
    return ReduceThroughSlots(operation, data, count, options_.rank == root);
  }
  return ReduceLarge(operation, data, root);
}

// Every rank sums everything by itself: more arithmetic, but one meeting instead of two. The slot
// may be written again two operations later: all peers have then met us in between, after reading.
Status NodeGroup::ReduceThroughSlots(const Operation& operation,
                                     void* data,
                                     size_t count,
                                     bool receives) {
  std::memcpy(Slot(options_.rank), data, operation.header.bytes);
  DDPRUN_TRY(MeetAndCompare(operation));
  if (!receives) return {};
  std::vector<const std::byte*> sources(static_cast<size_t>(size()));
  for (int rank = 0; rank < size(); ++rank) sources[static_cast<size_t>(rank)] = Slot(rank);
  std::byte* destination = static_cast<std::byte*>(data);
  ReduceArrays(operation.type(), operation.reduction(), sources, {&destination, 1}, count);
  return {};
}

// Every rank sums its chunk over all ranks and writes the result to all of them, or to the root.
Status NodeGroup::ReduceLarge(const Operation& operation, void* data, std::optional<int> root) {
  const size_t bytes = operation.header.bytes;
  std::byte* const own = static_cast<std::byte*>(data);
  const bool staged = operation.header.direct == 0;
  std::vector<std::byte*> chunks(static_cast<size_t>(size()));
  size_t piece = 0;
  for (size_t begin = 0; begin < bytes; begin += piece) {
    if (staged) std::memcpy(Staging(), own + begin, std::min(kStagingBytes, bytes - begin));
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    piece = std::min(PieceBytes(bytes, 0, size()), bytes - begin);
    const Range chunk = Chunk(piece, options_.rank, size());
    for (int rank = 0; rank < size(); ++rank) {
      chunks[static_cast<size_t>(rank)] = PieceOf(rank, begin) + chunk.begin;
    }
    const std::vector<const std::byte*> sources(chunks.begin(), chunks.end());
    std::span<std::byte* const> destinations = chunks;
    if (root) destinations = destinations.subspan(static_cast<size_t>(*root), 1);
    ReduceArrays(operation.type(), operation.reduction(), sources, destinations,
                 chunk.size() / SizeOf(operation.type()));
    DDPRUN_TRY(Meet(operation));
    const bool receives = !root || *root == options_.rank;
    if (staged && receives) std::memcpy(own + begin, Staging(), piece);
  }
  return {};
}

Status NodeGroup::Broadcast(void* data, size_t bytes, int root, Clock::time_point deadline) {
  DDPRUN_CHECK(root >= 0 && root < size());
  Operation operation = Begin(Kind::kBroadcast, data, bytes, deadline);
  operation.header.root = static_cast<uint32_t>(root);
  return Copy(operation, data, data, root, root + 1);
}

Status NodeGroup::AllGather(const void* input,
                            void* output,
                            size_t bytes,
                            Clock::time_point deadline) {
  const Operation operation = Begin(Kind::kAllGather, input, bytes, deadline);
  return Copy(operation, input, output, 0, size());
}

// Ranks [first, last) give their input; whoever has an output collects the inputs, one after the
// other.
Status NodeGroup::Copy(
    const Operation& operation, const void* input, void* output, int first, int last) {
  const size_t bytes = operation.header.bytes;
  const auto* own = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  const bool gives = options_.rank >= first && options_.rank < last;
  const auto collect = [&](size_t begin, size_t piece, auto&& source_of) {
    for (int rank = first; rank < last && out != nullptr; ++rank) {
      std::byte* destination = out + static_cast<size_t>(rank - first) * bytes + begin;
      const bool in_place = rank == options_.rank && destination == own + begin;
      if (!in_place) std::memcpy(destination, source_of(rank), piece);
    }
  };

  if (bytes <= kSlotBytes) {
    if (gives && bytes > 0) std::memcpy(Slot(options_.rank), own, bytes);
    DDPRUN_TRY(MeetAndCompare(operation));
    if (bytes > 0) collect(0, bytes, [&](int rank) { return Slot(rank); });
    return {};
  }
  const bool staged = gives && operation.header.direct == 0;
  size_t piece = 0;
  for (size_t begin = 0; begin < bytes; begin += piece) {
    if (staged) std::memcpy(Staging(), own + begin, std::min(kStagingBytes, bytes - begin));
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    piece = std::min(PieceBytes(bytes, first, last), bytes - begin);
    collect(begin, piece, [&](int rank) { return PieceOf(rank, begin); });
    DDPRUN_TRY(Meet(operation));  // the sources may change from here on
  }
  return {};
}

// One rank that stages makes all go piece by piece; the others then work in place, piece by piece.
size_t NodeGroup::PieceBytes(size_t bytes, int first, int last) {
  return AnyStaged(first, last) ? kStagingBytes : bytes;
}

bool NodeGroup::AnyStaged(int first, int last) {
  for (int rank = first; rank < last; ++rank) {
    if (header(rank).direct == 0) return true;
  }
  return false;
}

std::byte* NodeGroup::PieceOf(int rank, size_t begin) {
  const OperationHeader& theirs = header(rank);
  return region_.heap(rank) + theirs.heap_offset + (theirs.direct != 0 ? begin : 0);
}

}  // namespace ddprun::trainer
