#include "trainer/comm/node_rows.h"

#include <algorithm>
#include <cstring>

namespace ddprun::trainer {

Status ShareRowsOnNode(NodeMeeting& node,
                       NodeOperation& operation,
                       const RankRows& rows,
                       const void* input,
                       const CollectRows& collect) {
  const int first = rows.giver.value_or(0);
  const int last = rows.giver ? first + 1 : node.size();
  const bool gives = rows.Gives(node.self());
  const auto put = [&](std::byte* to, size_t begin, size_t stride) {
    for (int row = 0; row < rows.count(); ++row) {
      const size_t length = rows.Length(node.self(), row, begin, stride);
      if (length == 0) continue;
      const auto* own = static_cast<const std::byte*>(input) + rows.Offset(node.self(), row);
      std::memcpy(to + static_cast<size_t>(row) * stride, own + begin, length);
    }
  };
  if (operation.header.bytes <= kSlotBytes) {
    if (gives) put(node.Slot(node.self()), 0, rows.width);
    DDPRUN_TRY(node.MeetAndCompare(operation));
    collect(0, rows.width, [&](int rank, int row) -> const std::byte* {
      return node.Slot(rank) + static_cast<size_t>(row) * rows.width;
    });
    return {};
  }
  const size_t stride =
      node.staging_bytes() / static_cast<size_t>(rows.count()) / kLineBytes * kLineBytes;
  const bool staged = gives && operation.header.direct == 0;
  size_t columns = 0;
  for (size_t begin = 0; begin < rows.width; begin += columns) {
    if (staged) put(node.Staging(), begin, stride);
    DDPRUN_TRY(begin == 0 ? node.MeetAndCompare(operation) : node.Meet(operation));
    columns = node.AnyStaged(first, last) ? std::min(stride, rows.width - begin) : rows.width;
    collect(begin, columns, [&](int rank, int row) -> const std::byte* {
      const OperationHeader& theirs = node.header(rank);
      const std::byte* data = node.region().heap(rank) + theirs.heap_offset;
      if (theirs.direct == 0) return data + static_cast<size_t>(row) * stride;
      return data + rows.Offset(rank, row) + begin;
    });
    DDPRUN_TRY(node.Meet(operation));  // the sources may change after this meeting
  }
  return {};
}

}  // namespace ddprun::trainer
