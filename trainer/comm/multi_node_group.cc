#include "trainer/comm/multi_node_group.h"

#include <algorithm>
#include <cstring>

#include "trainer/comm/multi_node_chain.h"

namespace ddprun::trainer {

namespace {

NodeMeeting::Options WithStaging(NodeMeeting::Options options, size_t bytes) {
  options.staging_bytes = bytes;
  return options;
}

}  // namespace

MultiNodeGroup::MultiNodeGroup(SharedRegion& region,
                               const NodePlacement& placement,
                               GroupWire wire,
                               const NodeMeeting::Options& meeting)
    : NodeMeeting(region, WithStaging(meeting, kStaging)), placement_(placement) {
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
  if (inbox_ == nullptr || !AllHaveRead(send_on)) return;
  for (std::byte* inbox : {inbox_, old_inbox_}) {
    if (inbox != nullptr) region().Free(self(), inbox);
  }
}

Status MultiNodeGroup::Ended(Status status) {
  if (status.ok()) EndReading();
  if (!status.ok() && link_ != nullptr) link_->Fail(status.error());
  return status;
}

Status MultiNodeGroup::AllReduce(void* data,
                                 size_t count,
                                 DataType type,
                                 Reduction reduction,
                                 Clock::time_point deadline,
                                 AllReduceAlgorithm algorithm) {
  if (algorithm != AllReduceAlgorithm::kDirect) {
    return Error{.code = Code::kUsage,
                 .title = "ALGORITHM FOR ONE NODE",
                 .where = "rank " + std::to_string(rank()),
                 .what = "The all-reduce algorithm \"" + std::string(trainer::NameOf(algorithm)) +
                         "\" is for the ranks of one node; these are on " +
                         std::to_string(placement_.nodes()) + ".",
                 .hint = "Set comm.algorithm to \"direct\", or start all ranks on one node.",
                 .page = "algorithm-for-one-node"};
  }
  const size_t bytes = count * SizeOf(type);
  if (bytes <= kSlotBytes) return ReduceSmall(data, count, type, reduction, deadline);
  NodeOperation operation = Begin(CollectiveKind::kAllReduce, data, bytes, deadline);
  operation.header.type = static_cast<uint32_t>(type);
  operation.header.reduction = static_cast<uint32_t>(reduction);
  return Ended(ReduceLarge(operation, static_cast<std::byte*>(data)));
}

Status MultiNodeGroup::ReduceLarge(const NodeOperation& operation, std::byte* data) {
  const size_t bytes = operation.header.bytes;
  const bool staged = operation.header.direct == 0;
  for (size_t begin = 0; begin < bytes; begin += kStaging) {
    const size_t piece = std::min(kStaging, bytes - begin);
    if (staged) std::memcpy(Staging(), data + begin, piece);
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    Status carried;
    if (link_ != nullptr) {
      const Chunk chunk = ChunkOf(piece, self(), placement_.lanes());
      std::vector<std::byte*> arrays = Pieces(begin);
      for (std::byte*& array : arrays) array += chunk.begin;
      carried = Carry(operation, begin == 0,
                      [&](MultiNodeChain& chain) { return chain.AllReduce(arrays, chunk.size()); });
    }
    DDPRUN_TRY(MeetAndShare(operation, carried));
    if (staged) std::memcpy(data + begin, Staging(), piece);
  }
  return {};
}

template <typename Work>
Status MultiNodeGroup::Carry(const NodeOperation& operation, bool first, const Work& work) {
  if (first) {
    link_->SendHeaders(operation);
    DDPRUN_TRY(link_->AwaitHeaders(operation));
  }
  MultiNodeChain chain(*link_, placement_, operation, chain_buffer_);
  return work(chain);
}

// The staging memory holds columns of each row, if the rank stages, and after them columns of the
// result.
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
      carried = Carry(operation, begin == 0, [&](MultiNodeChain& chain) {
        return chain.ReduceScatter(rows, chunk.size());
      });
    }
    DDPRUN_TRY(MeetAndShare(operation, carried));
    std::memcpy(output + begin, Staging() + n * columns, piece);
  }
  return {};
}

}  // namespace ddprun::trainer
