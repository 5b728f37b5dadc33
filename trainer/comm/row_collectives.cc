#include "trainer/comm/row_collectives.h"

#include <cstring>
#include <numeric>

#include "base/check.h"
#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

NodeOperation RowCollectives::BeginRows(CollectiveKind kind,
                                        RankRows& rows,
                                        const void* input,
                                        Clock::time_point deadline,
                                        std::optional<size_t> own_bytes) {
  rows.ranks = size();
  const size_t bytes = rows.width * static_cast<size_t>(rows.count());
  NodeOperation operation = Begin(kind, input, bytes, deadline, own_bytes);
  const int root = rows.giver.value_or(rows.taker.value_or(0));
  DDPRUN_CHECK(root >= 0 && root < size());
  operation.header.root = static_cast<uint32_t>(root);
  return operation;
}

Status RowCollectives::CopyRows(CollectiveKind kind,
                                RankRows rows,
                                const void* input,
                                void* output,
                                Clock::time_point deadline,
                                std::optional<size_t> own_bytes) {
  NodeOperation operation = BeginRows(kind, rows, input, deadline, own_bytes);
  const auto copy = [&](size_t begin, size_t columns, const RowSource& source) {
    if (!rows.Takes(rank())) return;
    const int row = rows.for_each ? rank() : 0;
    auto* to = static_cast<std::byte*>(output);
    for (int giver = 0; giver < size(); ++giver) {
      if (!rows.Gives(giver)) continue;
      const size_t length = rows.Length(giver, row, begin, columns);
      // Only an operation with one row for all ranks may be in place.
      const bool in_place = giver == rank() && !rows.for_each && to == input;
      if (length > 0 && !in_place) std::memcpy(to + begin, source(giver, row), length);
      to += rows.Length(giver, row);
    }
  };
  return Ended(ShareRows(operation, rows, input, copy));
}

Status RowCollectives::SumRows(CollectiveKind kind,
                               RankRows rows,
                               const void* input,
                               void* output,
                               DataType type,
                               Reduction reduction,
                               Clock::time_point deadline) {
  NodeOperation operation = BeginRows(kind, rows, input, deadline);
  operation.SetReduction(type, reduction);
  const auto sum = [&](size_t begin, size_t columns, const RowSource& source) {
    if (columns == 0 || !rows.Takes(rank())) return;
    std::vector<const std::byte*> sources(static_cast<size_t>(size()));
    for (int giver = 0; giver < size(); ++giver) {
      sources[static_cast<size_t>(giver)] = source(giver, rows.for_each ? rank() : 0);
    }
    std::byte* destination = static_cast<std::byte*>(output) + begin;
    ReduceArrays(type, reduction, sources, {&destination, 1}, columns / SizeOf(type));
  };
  return Ended(ShareRows(operation, rows, input, sum));
}

Status RowCollectives::Broadcast(void* data, size_t bytes, int root, Clock::time_point deadline) {
  return CopyRows(CollectiveKind::kBroadcast, {.width = bytes, .giver = root}, data, data,
                  deadline);
}

Status RowCollectives::AllGather(const void* input,
                                 void* output,
                                 size_t bytes,
                                 Clock::time_point deadline) {
  return CopyRows(CollectiveKind::kAllGather, {.width = bytes}, input, output, deadline);
}

Status RowCollectives::ReduceScatter(const void* input,
                                     void* output,
                                     size_t count,
                                     DataType type,
                                     Reduction reduction,
                                     Clock::time_point deadline) {
  return SumRows(CollectiveKind::kReduceScatter, {.width = count * SizeOf(type), .for_each = true},
                 input, output, type, reduction, deadline);
}

Status RowCollectives::AllToAll(const void* input,
                                void* output,
                                size_t bytes,
                                Clock::time_point deadline) {
  return CopyRows(CollectiveKind::kAllToAll, {.width = bytes, .for_each = true}, input, output,
                  deadline);
}

Status RowCollectives::AllToAllV(const void* input,
                                 std::span<const size_t> send_bytes,
                                 void* output,
                                 std::span<const size_t> receive_bytes,
                                 Clock::time_point deadline) {
  DDPRUN_CHECK(send_bytes.size() == static_cast<size_t>(size()));
  DDPRUN_CHECK(receive_bytes.size() == static_cast<size_t>(size()));
  RankRows rows{.for_each = true, .ranks = size()};
  rows.lengths.resize(send_bytes.size() * send_bytes.size());
  DDPRUN_TRY(AllGather(send_bytes.data(), rows.lengths.data(), send_bytes.size_bytes(), deadline));
  rows.offsets.resize(rows.lengths.size());
  std::optional<Error> wrong;
  for (int giver = 0; giver < size(); ++giver) {
    size_t offset = 0;
    for (int row = 0; row < size(); ++row) {
      rows.offsets[rows.Index(giver, row)] = offset;
      offset += rows.Length(giver, row);
      rows.width = std::max(rows.width, rows.Length(giver, row));
    }
    const size_t expected = receive_bytes[static_cast<size_t>(giver)];
    const size_t sent = rows.Length(giver, rank());
    if (expected != sent && !wrong) wrong = WrongSizes(rank(), giver, expected, sent);
  }
  const size_t own_bytes = std::accumulate(send_bytes.begin(), send_bytes.end(), size_t{0});
  // Takes part even if the sizes are wrong, because the other ranks need this rank's data.
  std::vector<std::byte> unused(wrong ? rows.width * send_bytes.size() : 0);
  const Status copied = CopyRows(CollectiveKind::kAllToAll, rows, input,
                                 wrong ? unused.data() : output, deadline, own_bytes);
  if (wrong) return *wrong;
  return copied;
}

Status RowCollectives::Gather(
    const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) {
  return CopyRows(CollectiveKind::kGather, {.width = bytes, .taker = root}, input, output,
                  deadline);
}

Status RowCollectives::Scatter(
    const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) {
  return CopyRows(CollectiveKind::kScatter, {.width = bytes, .for_each = true, .giver = root},
                  input, output, deadline);
}

Status RowCollectives::Barrier(Clock::time_point deadline) {
  return CopyRows(CollectiveKind::kBarrier, {}, nullptr, nullptr, deadline);
}

}  // namespace ddprun::trainer
