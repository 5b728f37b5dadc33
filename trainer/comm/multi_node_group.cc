#include "trainer/comm/multi_node_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "trainer/comm/chunk.h"
#include "trainer/comm/multi_node_chain.h"
#include "trainer/comm/multi_node_slices.h"
#include "trainer/comm/node_readers.h"

namespace ddprun::trainer {

namespace {

// The largest inbox of a rank, for one piece of an operation.
constexpr size_t kInboxBytes = size_t{32} << 20;

NodeMeeting::Options WithStaging(NodeMeeting::Options options, size_t bytes) {
  options.staging_bytes = bytes;
  return options;
}

}  // namespace

MultiNodeGroup::MultiNodeGroup(SharedRegion& region,
                               const NodePlacement& placement,
                               GroupWire wire,
                               const NodeMeeting::Options& meeting)
    : RowCollectives(region, WithStaging(meeting, kStaging)), placement_(placement) {
  if (placement_.carries()) {
    NodeMeeting& own = *this;
    link_ = std::make_unique<NodeLink>(std::move(wire), own, placement_);
  }
}

MultiNodeGroup::~MultiNodeGroup() {
  // An operation may end on one rank while others still read its inbox. If a rank has not ended the
  // operation, the inbox stays until the region is freed.
  const auto send_on = [this] {  // another node may wait for messages of this rank
    if (link_ != nullptr) link_->Progress();
  };
  // Nobody uses what is read after the loss of a rank.
  if (inbox_ == nullptr || (!losses().LostRank() && !WaitForReaders(*this, send_on))) return;
  old_inboxes_.push_back(inbox_);
  FreeOldInboxes();
}

Status MultiNodeGroup::Ended(Status status) {
  if (status.ok()) EndReading(*this);
  if (!status.ok() && link_ != nullptr) link_->Fail(status.error());
  return status;
}

Status MultiNodeGroup::AllReduce(void* data,
                                 size_t count,
                                 DataType type,
                                 Reduction reduction,
                                 Clock::time_point deadline,
                                 AllReduceAlgorithm algorithm) {
  if (algorithm != AllReduceAlgorithm::kDirect && algorithm != AllReduceAlgorithm::kHierarchical) {
    return Error{
        .code = Code::kUsage,
        .title = "ALGORITHM FOR ONE NODE",
        .where = "rank " + std::to_string(rank()),
        .what = "The all-reduce algorithm \"" + std::string(trainer::NameOf(algorithm)) +
                "\" is for the ranks of one node; these are on " +
                std::to_string(placement_.nodes()) + ".",
        .hint =
            "Set comm.algorithm to \"direct\" or \"hierarchical\", or start all ranks on one node.",
        .page = "algorithm-for-one-node"};
  }
  const size_t bytes = count * SizeOf(type);
  if (bytes <= kSlotBytes) {
    return SumRows(CollectiveKind::kAllReduce, {.width = bytes}, data, data, type, reduction,
                   deadline);
  }
  NodeOperation operation = Begin(CollectiveKind::kAllReduce, data, bytes, deadline);
  operation.SetReduction(type, reduction);
  operation.header.algorithm = static_cast<uint32_t>(algorithm);
  return Ended(ReduceLarge(operation, static_cast<std::byte*>(data)));
}

Status MultiNodeGroup::ReduceLarge(const NodeOperation& operation, std::byte* data) {
  const size_t bytes = operation.header.bytes;
  const bool alone = NodeMeeting::size() == 1;  // nobody else needs to see the data
  const bool staged = operation.header.direct == 0 && !alone;
  for (size_t begin = 0; begin < bytes; begin += kStaging) {
    const size_t piece = std::min(kStaging, bytes - begin);
    if (staged) std::memcpy(Staging(), data + begin, piece);
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    Status carried;
    if (link_ != nullptr) {
      const Chunk chunk = ChunkOf(piece, self(), placement_.lanes());
      std::vector<std::byte*> arrays = alone ? std::vector{data + begin} : Pieces(begin);
      for (std::byte*& array : arrays) array += chunk.begin;
      carried =
          Carry(operation, begin == 0, [&] { return CarrySum(operation, arrays, chunk.size()); });
    }
    DDPRUN_TRY(MeetAndShare(operation, carried));
    if (staged) std::memcpy(data + begin, Staging(), piece);
  }
  return {};
}

Status MultiNodeGroup::CarrySum(const NodeOperation& operation,
                                std::span<std::byte* const> arrays,
                                size_t bytes) {
  const bool by_node =
      operation.header.algorithm == static_cast<uint32_t>(AllReduceAlgorithm::kHierarchical);
  const auto terms = MultiNodeSlices::Choose(placement_, operation.type(), by_node);
  if (terms) {
    return MultiNodeSlices(*link_, placement_, operation, *terms, carry_buffer_)
        .AllReduce(arrays, bytes);
  }
  return MultiNodeChain(*link_, placement_, operation, carry_buffer_).AllReduce(arrays, bytes);
}

template <typename Work>
Status MultiNodeGroup::Carry(const NodeOperation& operation, bool first, const Work& work) {
  if (first) {
    link_->SendHeaders(operation);
    DDPRUN_TRY(link_->AwaitHeaders(operation));
  }
  return work();
}

Status MultiNodeGroup::Reduce(void* data,
                              size_t count,
                              DataType type,
                              Reduction reduction,
                              int root,
                              Clock::time_point deadline) {
  return SumRows(CollectiveKind::kReduce, {.width = count * SizeOf(type), .taker = root}, data,
                 data, type, reduction, deadline);
}

Status MultiNodeGroup::ReduceScatter(const void* input,
                                     void* output,
                                     size_t count,
                                     DataType type,
                                     Reduction reduction,
                                     Clock::time_point deadline) {
  const size_t bytes = count * SizeOf(type) * static_cast<size_t>(size());
  if (bytes <= kSlotBytes || !MultiNodeChain::PaysForReduceScatter(placement_, type)) {
    return RowCollectives::ReduceScatter(input, output, count, type, reduction, deadline);
  }
  NodeOperation operation = Begin(CollectiveKind::kReduceScatter, input, bytes, deadline);
  operation.SetReduction(type, reduction);
  return Ended(ReduceScatterLarge(operation, static_cast<const std::byte*>(input),
                                  static_cast<std::byte*>(output)));
}

// The staging memory holds columns of each row, if the rank stages, then columns of the result.
Status MultiNodeGroup::ReduceScatterLarge(NodeOperation& operation,
                                          const std::byte* input,
                                          std::byte* output) {
  const size_t n = static_cast<size_t>(size());
  const size_t width = operation.header.bytes / n;
  const size_t columns = kStaging / (n + 1) / kLineBytes * kLineBytes;
  operation.header.inbox_offset =
      static_cast<uint64_t>(region().HeapOffset(self(), Staging(), kStaging));
  for (size_t begin = 0; begin < width; begin += columns) {
    const size_t piece = std::min(columns, width - begin);
    for (size_t row = 0; row < n && operation.header.direct == 0; ++row) {
      std::memcpy(Staging() + row * columns, input + row * width + begin, piece);
    }
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    Status carried;
    if (link_ != nullptr) {
      const Chunk chunk = ChunkOf(piece, self(), placement_.lanes());
      std::vector<MultiNodeChain::Rows> rows;
      for (int local = 0; local < NodeMeeting::size(); ++local) {
        std::byte* const staging = region().heap(local) + header(local).inbox_offset;
        rows.push_back({.begin = PieceOf(local, begin) + chunk.begin,
                        .stride = header(local).direct != 0 ? width : columns,
                        .result = staging + n * columns + chunk.begin});
      }
      carried = Carry(operation, begin == 0, [&] {
        return MultiNodeChain(*link_, placement_, operation, carry_buffer_)
            .ReduceScatter(rows, chunk.size());
      });
    }
    DDPRUN_TRY(MeetAndShare(operation, carried));
    std::memcpy(output + begin, Staging() + n * columns, piece);
  }
  return {};
}

// Works piece by piece: the givers place their data, the carriers exchange data with other nodes,
// then each rank that takes collects its rows.
Status MultiNodeGroup::ShareRows(NodeOperation& operation,
                                 const RankRows& rows,
                                 const void* input,
                                 const CollectRows& collect) {
  const bool small = operation.header.bytes <= kSlotBytes;
  const Inbox inbox = PlanInbox(rows);
  if (inbox_ != nullptr) {
    const int64_t offset = region().HeapOffset(self(), inbox_, inbox_bytes_);
    operation.header.inbox_offset = static_cast<uint64_t>(offset);
  }
  const bool staged = rows.Gives(rank()) && (small || operation.header.direct == 0);
  std::byte* const stage = small ? Slot(self()) : staged ? Staging() : nullptr;
  size_t begin = 0;
  do {
    for (int row = 0; staged && row < rows.count(); ++row) {
      const size_t length = rows.Length(rank(), row, begin, inbox.columns);
      if (length == 0) continue;
      std::memcpy(stage + static_cast<size_t>(row) * inbox.columns,
                  static_cast<const std::byte*>(input) + rows.Offset(rank(), row) + begin, length);
    }
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    FreeOldInboxes();
    const Status carried =
        link_ == nullptr ? Status() : ExchangeBlocks(operation, rows, inbox, begin);
    DDPRUN_TRY(MeetAndShare(operation, carried));
    const RowSource source = [&](int rank, int row) {
      const int carrier = placement_.LocalOf(rank) % placement_.lanes();
      if (placement_.NodeOf(rank) == placement_.node())
        return LocalRow(rows, inbox, rank, row, begin);
      return static_cast<const std::byte*>(region().heap(carrier) + header(carrier).inbox_offset +
                                           inbox.places[rows.Index(rank, row)]);
    };
    collect(begin, std::min(inbox.columns, rows.width - begin), source);
    begin += inbox.columns;
    // The sources may change after this meeting; after a small operation the next one has another
    // slot. Among 2,000 ranks a small operation has pieces, too.
    if (!small || begin < rows.width) DDPRUN_TRY(Meet(operation));
  } while (begin < rows.width);
  return {};
}

const std::byte* MultiNodeGroup::LocalRow(
    const RankRows& rows, const Inbox& inbox, int rank, int row, size_t begin) {
  const int local = placement_.LocalOf(rank);
  const size_t staged = static_cast<size_t>(row) * inbox.columns;
  const OperationHeader& theirs = header(local);
  if (theirs.bytes <= kSlotBytes) return Slot(local) + staged;
  const std::byte* data = region().heap(local) + theirs.heap_offset;
  return data + (theirs.direct == 0 ? staged : rows.Offset(rank, row) + begin);
}

// Plans how many columns a piece has, equally on all nodes, and where in the inbox each row goes.
MultiNodeGroup::Inbox MultiNodeGroup::PlanInbox(const RankRows& rows) {
  const auto lanes = static_cast<size_t>(placement_.lanes());
  size_t largest_node = 0;
  for (int node = 0; node < placement_.nodes(); ++node) {
    largest_node = std::max(largest_node, placement_.Members(node).size());
  }
  const size_t per_giver = rows.for_each ? largest_node : 1;
  const size_t givers = rows.giver ? 1 : static_cast<size_t>(size());
  const size_t blocks = (givers + lanes - 1) * per_giver;
  const size_t fit = std::min(kInboxBytes / blocks, kStaging / static_cast<size_t>(rows.count()));
  const size_t columns = std::max<size_t>(std::min(rows.width, fit / kLineBytes * kLineBytes), 1);
  Inbox inbox{.columns = columns,
              .places = std::vector<size_t>(static_cast<size_t>(size() * rows.count()))};
  size_t most = 0;
  for (size_t lane = 0; lane < lanes; ++lane) {
    size_t used = 0;
    for (int node = 0; node < placement_.nodes(); ++node) {
      if (node == placement_.node()) continue;
      rows.Between(placement_.Members(node), placement_.Members(placement_.node()), lane, lanes,
                   [&](int rank, int row) {
                     inbox.places[rows.Index(rank, row)] = used;
                     used += (columns + kLineBytes - 1) / kLineBytes * kLineBytes;
                   });
    }
    if (static_cast<int>(lane) == self()) most = used;
  }
  if (most > inbox_bytes_) GrowInbox(most);
  return inbox;
}

// An operation that fails at its first meeting leaves an old inbox to the next one.
void MultiNodeGroup::FreeOldInboxes() {
  for (std::byte* const inbox : std::exchange(old_inboxes_, {})) region().Free(self(), inbox);
}

void MultiNodeGroup::GrowInbox(size_t bytes) {
  if (inbox_ != nullptr) old_inboxes_.push_back(inbox_);
  inbox_ = region().Allocate(self(), bytes);
  DDPRUN_CHECK(inbox_ != nullptr);
  inbox_bytes_ = bytes;
}

Status MultiNodeGroup::ExchangeBlocks(const NodeOperation& operation,
                                      const RankRows& rows,
                                      const Inbox& inbox,
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
      const size_t length = rows.Length(rank, row, begin, inbox.columns);
      if (length == 0) return;
      link_->Receive(peer, WireStream::kBlocks, number,
                     inbox_ + inbox.places[rows.Index(rank, row)], length);
    });
    rows.Between(here, there, lane, lanes, [&](int rank, int row) {
      const size_t length = rows.Length(rank, row, begin, inbox.columns);
      if (length == 0) return;
      link_->Send(peer, WireStream::kBlocks, number, LocalRow(rows, inbox, rank, row, begin),
                  length);
    });
  }
  if (begin == 0) DDPRUN_TRY(link_->AwaitHeaders(operation));
  return link_->AwaitAll(operation);
}

}  // namespace ddprun::trainer
