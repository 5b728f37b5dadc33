// Plans which rank writes which part of a state, as a pure function of its name table, so that
// ranks need not communicate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Rows of a tensor that one rank writes. A row is all elements with one index in the first
// dimension. A tensor without dimensions is one row.
struct PlannedPiece {
  size_t tensor = 0;  // its place in the table
  int64_t begin = 0;  // rows of this rank's part
  int64_t end = 0;

  bool operator==(const PlannedPiece&) const = default;
};

// Returns the pieces of `tensors` that rank `part.rank` of `part.size` writes, in their order,
// without padding. If several ranks have a tensor (StateTensor::replicas), they divide it at rows
// into equal shares, but not into small ones; its name decides at which rank the shares begin.
// Nothing is written twice, not even a tensor with several names.
std::vector<PlannedPiece> PlanShard(std::span<const StateTensor> tensors, RankPart part);

// Returns for each tensor the place of the first one with its memory (usually its own place).
std::vector<size_t> FindFirstOfTied(std::span<const StateTensor> tensors);

// Returns the rows of `piece` in the tensor.
at::Tensor RowsOf(const StateTensor& tensor, const PlannedPiece& piece);

}  // namespace ddprun::trainer
