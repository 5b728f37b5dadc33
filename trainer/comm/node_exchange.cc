// The collectives of NodeGroup in which each rank gets its own part: reduce-scatter, all-to-all,
// gather, scatter. A rank's input has one row for each rank.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "trainer/comm/chunk.h"
#include "trainer/comm/node_group.h"
#include "trainer/comm/reduce.h"

namespace ddprun::trainer {

// Where the rows of every rank's input are. `width` is the length of the longest row, in bytes.
struct NodeGroup::Rows {
  size_t width = 0;
  int size = 1;
  std::vector<size_t> lengths = {};  // [rank][row]; empty: all rows are `width` long, packed
  std::vector<size_t> offsets = {};

  size_t Index(int rank, int row) const { return static_cast<size_t>(rank * size + row); }
  size_t Length(int rank, int row) const {
    return lengths.empty() ? width : lengths[Index(rank, row)];
  }
  size_t Offset(int rank, int row) const {
    return offsets.empty() ? static_cast<size_t>(row) * width : offsets[Index(rank, row)];
  }
};

// Calls collect(begin, columns, source) for each piece. source(rank, row) returns columns [begin,
// begin + columns) of the row, for every rank in [first, last). Shorter rows end before.
template <typename Collect>
Status NodeGroup::ShareRows(const Operation& operation,
                            const Rows& rows,
                            const void* input,
                            int first,
                            int last,
                            const Collect& collect) {
  const auto* own = static_cast<const std::byte*>(input);
  const int own_rank = self();
  const bool gives = own_rank >= first && own_rank < last;
  const auto put = [&](std::byte* to, size_t begin, size_t stride) {
    for (int row = 0; row < size(); ++row) {
      const size_t length = rows.Length(own_rank, row);
      if (length <= begin) continue;
      std::memcpy(to + static_cast<size_t>(row) * stride, own + rows.Offset(own_rank, row) + begin,
                  std::min(stride, length - begin));
    }
  };
  if (operation.header.bytes <= kSlotBytes) {
    if (gives) put(Slot(own_rank), 0, rows.width);
    DDPRUN_TRY(MeetAndCompare(operation));
    collect(0, rows.width, [&](int rank, int row) -> const std::byte* {
      return Slot(rank) + static_cast<size_t>(row) * rows.width;
    });
    return {};
  }
  const size_t stride = staging_bytes() / static_cast<size_t>(size()) / kLineBytes * kLineBytes;
  const bool staged = gives && operation.header.direct == 0;
  size_t columns = 0;
  for (size_t begin = 0; begin < rows.width; begin += columns) {
    if (staged) put(Staging(), begin, stride);
    DDPRUN_TRY(begin == 0 ? MeetAndCompare(operation) : Meet(operation));
    columns = AnyStaged(first, last) ? std::min(stride, rows.width - begin) : rows.width;
    collect(begin, columns, [&](int rank, int row) -> const std::byte* {
      const OperationHeader& theirs = header(rank);
      const std::byte* data = region().heap(rank) + theirs.heap_offset;
      if (theirs.direct == 0) return data + static_cast<size_t>(row) * stride;
      return data + rows.Offset(rank, row) + begin;
    });
    DDPRUN_TRY(Meet(operation));  // the sources may change after this meeting
  }
  return {};
}

Status NodeGroup::ReduceScatter(const void* input,
                                void* output,
                                size_t count,
                                DataType type,
                                Reduction reduction,
                                Clock::time_point deadline) {
  const Rows rows{.width = count * SizeOf(type), .size = size()};
  const size_t bytes = rows.width * static_cast<size_t>(size());
  Operation operation = Begin(Kind::kReduceScatter, input, bytes, deadline);
  operation.header.type = static_cast<uint32_t>(type);
  operation.header.reduction = static_cast<uint32_t>(reduction);
  return ShareRows(
      operation, rows, input, 0, size(), [&](size_t begin, size_t columns, const auto& source) {
        if (columns == 0) return;
        std::vector<const std::byte*> sources(static_cast<size_t>(size()));
        for (int rank = 0; rank < size(); ++rank) {
          sources[static_cast<size_t>(rank)] = source(rank, self());
        }
        std::byte* destination = static_cast<std::byte*>(output) + begin;
        ReduceArrays(type, reduction, sources, {&destination, 1}, columns / SizeOf(type));
      });
}

Status NodeGroup::AllToAll(const void* input,
                           void* output,
                           size_t bytes,
                           Clock::time_point deadline) {
  const Rows rows{.width = bytes, .size = size()};
  const size_t total = bytes * static_cast<size_t>(size());
  return ShareRows(
      Begin(Kind::kAllToAll, input, total, deadline), rows, input, 0, size(),
      [&](size_t begin, size_t columns, const auto& source) {
        for (int rank = 0; rank < size() && columns > 0; ++rank) {
          std::memcpy(static_cast<std::byte*>(output) + static_cast<size_t>(rank) * bytes + begin,
                      source(rank, self()), columns);
        }
      });
}

Status NodeGroup::AllToAllV(const void* input,
                            std::span<const size_t> send_bytes,
                            void* output,
                            std::span<const size_t> receive_bytes,
                            Clock::time_point deadline) {
  DDPRUN_CHECK(send_bytes.size() == static_cast<size_t>(size()));
  DDPRUN_CHECK(receive_bytes.size() == static_cast<size_t>(size()));
  Rows rows{.size = size()};
  rows.lengths.resize(send_bytes.size() * send_bytes.size());
  DDPRUN_TRY(AllGather(send_bytes.data(), rows.lengths.data(), send_bytes.size_bytes(), deadline));
  rows.offsets.resize(rows.lengths.size());
  std::optional<Error> wrong;
  for (int rank = 0; rank < size(); ++rank) {
    size_t offset = 0;
    for (int row = 0; row < size(); ++row) {
      rows.offsets[rows.Index(rank, row)] = offset;
      offset += rows.Length(rank, row);
      rows.width = std::max(rows.width, rows.Length(rank, row));
    }
    const size_t expected = receive_bytes[static_cast<size_t>(rank)];
    const size_t sent = rows.Length(rank, self());
    if (expected != sent && !wrong) wrong = WrongSizes(self(), rank, expected, sent);
  }
  size_t own_bytes = 0;
  for (const size_t bytes : send_bytes) own_bytes += bytes;
  const size_t total = rows.width * static_cast<size_t>(size());
  const Operation operation = Begin(Kind::kAllToAll, input, total, deadline, own_bytes);
  const Status shared = ShareRows(
      operation, rows, input, 0, size(), [&](size_t begin, size_t columns, const auto& source) {
        auto* to = static_cast<std::byte*>(output);
        for (int rank = 0; rank < size() && !wrong; ++rank) {
          const size_t length = rows.Length(rank, self());
          if (length > begin) {
            std::memcpy(to + begin, source(rank, self()), std::min(columns, length - begin));
          }
          to += length;
        }
      });
  // Returns the error only now, because the other ranks needed this rank's data.
  if (wrong) return *wrong;
  return shared;
}

Status NodeGroup::Gather(
    const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) {
  DDPRUN_CHECK(root >= 0 && root < size());
  Operation operation = Begin(Kind::kGather, input, bytes, deadline);
  operation.header.root = static_cast<uint32_t>(root);
  return Copy(operation, input, self() == root ? output : nullptr, 0, size());
}

Status NodeGroup::Scatter(
    const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) {
  DDPRUN_CHECK(root >= 0 && root < size());
  const Rows rows{.width = bytes, .size = size()};
  const size_t total = bytes * static_cast<size_t>(size());
  Operation operation = Begin(Kind::kScatter, input, total, deadline);
  operation.header.root = static_cast<uint32_t>(root);
  return ShareRows(operation, rows, input, root, root + 1,
                   [&](size_t begin, size_t columns, const auto& source) {
                     if (columns == 0) return;
                     std::memcpy(static_cast<std::byte*>(output) + begin, source(root, self()),
                                 columns);
                   });
}

}  // namespace ddprun::trainer
