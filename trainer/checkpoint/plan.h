// Who writes what of a state, as a pure function of its name table: no rank asks another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Rows of a tensor that one rank writes; a row is all that has one index in the first dimension. A
// tensor without dimensions is one row.
struct PlannedPiece {
  size_t tensor = 0;  // its place in the table
  int64_t begin = 0;  // rows of this rank's part
  int64_t end = 0;

  bool operator==(const PlannedPiece&) const = default;
};

// What rank `part.rank` of `part.size` writes of `tensors`, in their order. A tensor of which it
// has the whole is the same on all ranks, and they share all such tensors out: each takes an equal
// share of the bytes, cut at rows. Of another it writes what it has, without rows beyond the whole
// (padding). Nothing comes twice, also not a tensor that is there under several names.
std::vector<PlannedPiece> PlanShard(std::span<const StateTensor> tensors, RankPart part);

// For each tensor the place of the first one that is the same memory (its own place, mostly).
std::vector<size_t> FirstOfTied(std::span<const StateTensor> tensors);

// Rows of this rank's part that are within the whole.
int64_t RowsWithin(const StateTensor& tensor);
// Those rows of it.
at::Tensor RowsOf(const StateTensor& tensor, const PlannedPiece& piece);

}  // namespace ddprun::trainer
