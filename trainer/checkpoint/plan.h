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

// What rank `part.rank` of `part.size` writes of `tensors`, in their order, without padding. What
// several ranks have (StateTensor::replicas) they share out, each tensor by itself: cut at rows
// into equal shares, but into none that would be small; its name tells at which rank they begin.
// Nothing comes twice, also not a tensor that is there under several names.
std::vector<PlannedPiece> PlanShard(std::span<const StateTensor> tensors, RankPart part);

// For each tensor the place of the first one that is the same memory (its own place, mostly).
std::vector<size_t> FirstOfTied(std::span<const StateTensor> tensors);

// Those rows of a tensor.
at::Tensor RowsOf(const StateTensor& tensor, const PlannedPiece& piece);

}  // namespace ddprun::trainer
