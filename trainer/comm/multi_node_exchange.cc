// The operations of MultiNodeGroup that move each rank's data unsummed. A rank that gives has one
// row, or one row for each rank. The rows of other nodes come into an inbox, which the node's ranks
// share.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "trainer/comm/chunk.h"
#include "trainer/comm/multi_node_chain.h"
#include "trainer/comm/multi_node_group.h"
#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

namespace {

// The largest inbox of a rank, for one piece of an operation.
constexpr size_t kInboxBytes = size_t{32} << 20;

}  // namespace

// Which rank gives which row to which rank. `width` is the length of the longest row, in bytes.
struct MultiNodeGroup::Rows {
  size_t width = 0;
  int ranks = 1;
  bool for_each = false;             // true: one row for each rank; false: one row for all ranks
  std::optional<int> giver = {};     // nullopt: all ranks
  std::optional<int> taker = {};     // nullopt: all ranks
  std::vector<size_t> lengths = {};  // [rank][row]; empty: all rows are `width` long, packed
  std::vector<size_t> offsets = {};
  // Set by ShareRows:
  size_t columns = 0;              // of a piece: bytes of each row
  std::vector<size_t> inbox = {};  // [rank][row]: the row's place in the inbox

  int count() const { return for_each ? ranks : 1; }
  bool Gives(int rank) const { return !giver || *giver == rank; }
  bool Takes(int rank) const { return !taker || *taker == rank; }
  size_t Index(int rank, int row) const { return static_cast<size_t>(rank * count() + row); }
  size_t Offset(int rank, int row) const {
    return offsets.empty() ? static_cast<size_t>(row) * width : offsets[Index(rank, row)];
  }
  // Returns the row's length in the piece that begins at column `begin`.
  size_t Length(int rank, int row, size_t begin) const {
    const size_t length = lengths.empty() ? width : lengths[Index(rank, row)];
    return length <= begin ? 0 : std::min(columns, length - begin);
  }
  // Calls visit(rank, row) for each row that the ranks of lane `lane` in `from` give to the ranks
  // of `to`.
  template <typename Visit>
  void Between(const std::vector<int>& from,
               const std::vector<int>& to,
               size_t lane,
               size_t lanes,
               const Visit& visit) const {
    for (size_t i = lane; i < from.size(); i += lanes) {
      if (!Gives(from[i])) continue;
      for (const int taker_rank : to) {
        if (!Takes(taker_rank)) continue;
        visit(from[i], for_each ? taker_rank : 0);
        if (!for_each) break;
      }
    }
  }
};

NodeOperation MultiNodeGroup::BeginRows(CollectiveKind kind,
                                        const Rows& rows,
                                        const void* input,
                                        Clock::time_point deadline,
                                        std::optional<size_t> own_bytes) {
  const size_t bytes = rows.width * static_cast<size_t>(rows.count());
  return Begin(kind, input, bytes, deadline, own_bytes);
}

// Works piece by piece: the givers place their data, the carriers exchange data with other nodes,
// then each rank that takes collects its rows.
Status MultiNodeGroup::ShareRows(NodeOperation& operation,
                                 Rows& rows,
                                 const void* input,
                                 const Collect& collect) {
  const bool small = operation.header.bytes <= kSlotBytes;
  PlanInbox(rows);
  if (inbox_ != nullptr) {
    const int64_t offset = region().HeapOffset(self(), inbox_, inbox_bytes_);
    operation.header.inbox_offset = static_cast<uint64_t>(offset);
  }
  const bool staged = rows.Gives(rank()) && (small || operation.header.direct == 0);
  std::byte* const stage = small ? Slot(self()) : staged ? Staging() : nullptr;
  size_t begin = 0;
  do {
    for (int row = 0; staged && row < rows.count(); ++row) {
      const size_t length = rows.Length(rank(), row, begin);
      if (length == 0) continue;
      std::memcpy(stage + static_cast<size_t>(row) * rows.columns,
                  static_cast<const std::byte*>(input) + rows.Offset(rank(), row) + begin, length);
    }
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    if (old_inbox_ != nullptr) region().Free(self(), std::exchange(old_inbox_, nullptr));
    const Status carried = link_ == nullptr ? Status() : ExchangeBlocks(operation, rows, begin);
    DDPRUN_TRY(MeetAndShare(operation, carried));
    const Source source = [&](int rank, int row) {
      const int carrier = placement_.LocalOf(rank) % placement_.lanes();
      if (placement_.NodeOf(rank) == placement_.node()) return LocalRow(rows, rank, row, begin);
      return static_cast<const std::byte*>(region().heap(carrier) + header(carrier).inbox_offset +
                                           rows.inbox[rows.Index(rank, row)]);
    };
    collect(begin, std::min(rows.columns, rows.width - begin), source);
    if (!small) DDPRUN_TRY(Meet(operation));  // the sources may change after this meeting
    begin += rows.columns;
  } while (begin < rows.width);
  return {};
}

const std::byte* MultiNodeGroup::LocalRow(const Rows& rows, int rank, int row, size_t begin) {
  const int local = placement_.LocalOf(rank);
  const size_t staged = static_cast<size_t>(row) * rows.columns;
  const OperationHeader& theirs = header(local);
  if (theirs.bytes <= kSlotBytes) return Slot(local) + staged;
  const std::byte* data = region().heap(local) + theirs.heap_offset;
  return data + (theirs.direct == 0 ? staged : rows.Offset(rank, row) + begin);
}

// Sets how many columns a piece has, equally on all nodes, and where in the inbox each row goes.
void MultiNodeGroup::PlanInbox(Rows& rows) {
  const auto lanes = static_cast<size_t>(placement_.lanes());
  size_t largest_node = 0;
  for (int node = 0; node < placement_.nodes(); ++node) {
    largest_node = std::max(largest_node, placement_.Members(node).size());
  }
  const size_t per_giver = rows.for_each ? largest_node : 1;
  const size_t givers = rows.giver ? 1 : static_cast<size_t>(size());
  const size_t blocks = (givers + lanes - 1) * per_giver;
  const size_t fit = std::min(kInboxBytes / blocks, kStaging / static_cast<size_t>(rows.count()));
  rows.columns = std::max<size_t>(std::min(rows.width, fit / kLineBytes * kLineBytes), 1);
  rows.inbox.assign(static_cast<size_t>(size() * rows.count()), 0);
  size_t most = 0;
  for (size_t lane = 0; lane < lanes; ++lane) {
    size_t used = 0;
    for (int node = 0; node < placement_.nodes(); ++node) {
      if (node == placement_.node()) continue;
      rows.Between(placement_.Members(node), placement_.Members(placement_.node()), lane, lanes,
                   [&](int rank, int row) {
                     rows.inbox[rows.Index(rank, row)] = used;
                     used += (rows.columns + kLineBytes - 1) / kLineBytes * kLineBytes;
                   });
    }
    if (static_cast<int>(lane) == self()) most = used;
  }
  if (most > inbox_bytes_) GrowInbox(most);
}

void MultiNodeGroup::GrowInbox(size_t bytes) {
  DDPRUN_CHECK(old_inbox_ == nullptr);
  old_inbox_ = inbox_;
  inbox_ = region().Allocate(self(), bytes);
  DDPRUN_CHECK(inbox_ != nullptr);
  inbox_bytes_ = bytes;
}

Status MultiNodeGroup::ExchangeBlocks(const NodeOperation& operation,
                                      const Rows& rows,
                                      size_t begin) {
  if (begin == 0) link_->SendHeaders(operation);
  const auto lane = static_cast<size_t>(self());
  const auto lanes = static_cast<size_t>(placement_.lanes());
  const std::vector<int>& here = placement_.Members(placement_.node());
  const auto number = static_cast<uint32_t>(operation.header.sequence);
  for (int node = 0; node < placement_.nodes(); ++node) {
    if (node == placement_.node()) continue;
    const std::vector<int>& there = placement_.Members(node);
    const int peer = placement_.Counterpart(node);
    rows.Between(there, here, lane, lanes, [&](int rank, int row) {
      const size_t length = rows.Length(rank, row, begin);
      if (length == 0) return;
      link_->Receive(peer, WireStream::kBlocks, number, inbox_ + rows.inbox[rows.Index(rank, row)],
                     length);
    });
    rows.Between(here, there, lane, lanes, [&](int rank, int row) {
      const size_t length = rows.Length(rank, row, begin);
      if (length == 0) return;
      link_->Send(peer, WireStream::kBlocks, number, LocalRow(rows, rank, row, begin), length);
    });
  }
  if (begin == 0) DDPRUN_TRY(link_->AwaitHeaders(operation));
  return link_->AwaitAll(operation);
}

// Returns a Collect that copies the rows for this rank to `output`: one row of each giver, one
// after the other.
MultiNodeGroup::Collect MultiNodeGroup::Copying(const Rows& rows, const void* input, void* output) {
  return [&rows, this, own = static_cast<const std::byte*>(input),
          out = static_cast<std::byte*>(output)](size_t begin, size_t, const Source& source) {
    if (!rows.Takes(rank())) return;
    const int row = rows.for_each ? rank() : 0;
    std::byte* to = out;
    for (int giver = 0; giver < size(); ++giver) {
      if (!rows.Gives(giver)) continue;
      const size_t length = rows.Length(giver, row, begin);
      // Only an operation with one row per rank may be in place.
      const bool in_place = giver == rank() && !rows.for_each && to == own;
      if (length > 0 && !in_place) std::memcpy(to + begin, source(giver, row), length);
      to += rows.lengths.empty() ? rows.width : rows.lengths[rows.Index(giver, row)];
    }
  };
}

MultiNodeGroup::Collect MultiNodeGroup::Summing(const NodeOperation& operation,
                                                void* output,
                                                int row) {
  return [this, row, out = static_cast<std::byte*>(output), type = operation.type(),
          reduction = operation.reduction()](size_t begin, size_t columns, const Source& source) {
    if (columns == 0) return;
    std::vector<const std::byte*> sources;
    for (int giver = 0; giver < size(); ++giver) sources.push_back(source(giver, row));
    std::byte* destination = out + begin;
    ReduceArrays(type, reduction, sources, {&destination, 1}, columns / SizeOf(type));
  };
}

Status MultiNodeGroup::ReduceSmall(
    void* data, size_t count, DataType type, Reduction reduction, Clock::time_point deadline) {
  Rows rows{.width = count * SizeOf(type), .ranks = size()};
  NodeOperation operation = BeginRows(CollectiveKind::kAllReduce, rows, data, deadline);
  operation.header.type = static_cast<uint32_t>(type);
  operation.header.reduction = static_cast<uint32_t>(reduction);
  return Ended(ShareRows(operation, rows, data, Summing(operation, data, 0)));
}

Status MultiNodeGroup::Reduce(void* data,
                              size_t count,
                              DataType type,
                              Reduction reduction,
                              int root,
                              Clock::time_point deadline) {
  DDPRUN_CHECK(root >= 0 && root < size());
  Rows rows{.width = count * SizeOf(type), .ranks = size(), .taker = root};
  NodeOperation operation = BeginRows(CollectiveKind::kReduce, rows, data, deadline);
  operation.header.type = static_cast<uint32_t>(type);
  operation.header.reduction = static_cast<uint32_t>(reduction);
  operation.header.root = static_cast<uint32_t>(root);
  const Collect sum = Summing(operation, data, 0);
  const auto collect = [&](size_t begin, size_t columns, const Source& source) {
    if (rank() == root) sum(begin, columns, source);
  };
  return Ended(ShareRows(operation, rows, data, collect));
}

Status MultiNodeGroup::ReduceScatter(const void* input,
                                     void* output,
                                     size_t count,
                                     DataType type,
                                     Reduction reduction,
                                     Clock::time_point deadline) {
  Rows rows{.width = count * SizeOf(type), .ranks = size(), .for_each = true};
  NodeOperation operation = BeginRows(CollectiveKind::kReduceScatter, rows, input, deadline);
  operation.header.type = static_cast<uint32_t>(type);
  operation.header.reduction = static_cast<uint32_t>(reduction);
  if (operation.header.bytes > kSlotBytes &&
      MultiNodeChain::PaysForReduceScatter(placement_, type)) {
    return Ended(ReduceScatterLarge(operation, static_cast<const std::byte*>(input),
                                    static_cast<std::byte*>(output)));
  }
  return Ended(ShareRows(operation, rows, input, Summing(operation, output, rank())));
}

Status MultiNodeGroup::Move(CollectiveKind kind,
                            Rows rows,
                            const void* input,
                            void* output,
                            Clock::time_point deadline,
                            std::optional<size_t> own_bytes) {
  rows.ranks = size();
  NodeOperation operation = BeginRows(kind, rows, input, deadline, own_bytes);
  if (rows.giver) operation.header.root = static_cast<uint32_t>(*rows.giver);
  if (rows.taker) operation.header.root = static_cast<uint32_t>(*rows.taker);
  return Ended(ShareRows(operation, rows, input, Copying(rows, input, output)));
}

Status MultiNodeGroup::Broadcast(void* data, size_t bytes, int root, Clock::time_point deadline) {
  DDPRUN_CHECK(root >= 0 && root < size());
  return Move(CollectiveKind::kBroadcast, {.width = bytes, .giver = root}, data, data, deadline);
}

Status MultiNodeGroup::AllGather(const void* input,
                                 void* output,
                                 size_t bytes,
                                 Clock::time_point deadline) {
  return Move(CollectiveKind::kAllGather, {.width = bytes}, input, output, deadline);
}

Status MultiNodeGroup::Gather(
    const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) {
  DDPRUN_CHECK(root >= 0 && root < size());
  return Move(CollectiveKind::kGather, {.width = bytes, .taker = root}, input, output, deadline);
}

Status MultiNodeGroup::Scatter(
    const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) {
  DDPRUN_CHECK(root >= 0 && root < size());
  return Move(CollectiveKind::kScatter, {.width = bytes, .for_each = true, .giver = root}, input,
              output, deadline);
}

Status MultiNodeGroup::AllToAll(const void* input,
                                void* output,
                                size_t bytes,
                                Clock::time_point deadline) {
  return Move(CollectiveKind::kAllToAll, {.width = bytes, .for_each = true}, input, output,
              deadline);
}

Status MultiNodeGroup::AllToAllV(const void* input,
                                 std::span<const size_t> send_bytes,
                                 void* output,
                                 std::span<const size_t> receive_bytes,
                                 Clock::time_point deadline) {
  DDPRUN_CHECK(send_bytes.size() == static_cast<size_t>(size()));
  DDPRUN_CHECK(receive_bytes.size() == static_cast<size_t>(size()));
  Rows rows{.ranks = size(), .for_each = true};
  rows.lengths.resize(send_bytes.size() * send_bytes.size());
  DDPRUN_TRY(AllGather(send_bytes.data(), rows.lengths.data(), send_bytes.size_bytes(), deadline));
  rows.offsets.resize(rows.lengths.size());
  std::optional<Error> wrong;
  size_t expected_bytes = 0;
  for (int giver = 0; giver < size(); ++giver) {
    size_t offset = 0;
    for (int row = 0; row < size(); ++row) {
      rows.offsets[rows.Index(giver, row)] = offset;
      offset += rows.lengths[rows.Index(giver, row)];
      rows.width = std::max(rows.width, rows.lengths[rows.Index(giver, row)]);
    }
    const size_t expected = receive_bytes[static_cast<size_t>(giver)];
    const size_t sent = rows.lengths[rows.Index(giver, rank())];
    expected_bytes += sent;
    if (expected != sent && !wrong) wrong = WrongSizes(rank(), giver, expected, sent);
  }
  size_t own_bytes = 0;
  for (const size_t bytes : send_bytes) own_bytes += bytes;
  // Takes part even if the sizes are wrong, because the other ranks need this rank's data.
  std::vector<std::byte> unused(wrong ? expected_bytes : 0);
  const Status moved = Move(CollectiveKind::kAllToAll, rows, input, wrong ? unused.data() : output,
                            deadline, own_bytes);
  if (wrong) return *wrong;
  return moved;
}

Status MultiNodeGroup::Barrier(Clock::time_point deadline) {
  return Move(CollectiveKind::kBarrier, {}, nullptr, nullptr, deadline);
}

}  // namespace ddprun::trainer
