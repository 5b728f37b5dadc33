// The rows that each rank gives and takes in a collective that exchanges rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace ddprun::trainer {

// A rank that gives has one row, or one row for each rank. `width`: bytes of the longest row.
struct RankRows {
  size_t width = 0;
  bool for_each = false;             // true: one row for each rank; false: one row for all ranks
  std::optional<int> giver = {};     // nullopt: all ranks
  std::optional<int> taker = {};     // nullopt: all ranks
  int ranks = 1;                     // of the group
  std::vector<size_t> lengths = {};  // [rank][row]; empty: all rows are `width` long, packed
  std::vector<size_t> offsets = {};

  int count() const { return for_each ? ranks : 1; }
  bool Gives(int rank) const { return !giver || *giver == rank; }
  bool Takes(int rank) const { return !taker || *taker == rank; }
  size_t Index(int rank, int row) const { return static_cast<size_t>(rank * count() + row); }
  size_t Offset(int rank, int row) const {
    return offsets.empty() ? static_cast<size_t>(row) * width : offsets[Index(rank, row)];
  }
  size_t Length(int rank, int row) const {
    return lengths.empty() ? width : lengths[Index(rank, row)];
  }
  // Returns the bytes of the row within columns [begin, begin + columns).
  size_t Length(int rank, int row, size_t begin, size_t columns) const {
    const size_t length = Length(rank, row);
    return length <= begin ? 0 : std::min(columns, length - begin);
  }
  // Calls visit(rank, row) for each row that ranks of `lane` in `from` give to ranks of `to`.
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

// source(rank, row) returns columns [begin, begin + columns) of a row of a rank that gives. A
// shorter row ends before.
using RowSource = std::function<const std::byte*(int rank, int row)>;
using CollectRows = std::function<void(size_t begin, size_t columns, const RowSource& source)>;

}  // namespace ddprun::trainer
