// What index.json says, and the records that ranks leave for the one that writes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/commit.h"
#include "trainer/checkpoint/plan.h"

namespace ddprun::trainer {

// What a rank names, with the pieces that it writes to `file`.
TensorTable TableOf(const StateDict& state,
                    std::span<const PlannedPiece> pieces,
                    const std::string& file);

// The offset in the whole, and the shape, of what a rank writes.
CheckpointPiece PlaceOf(const StateTensor& tensor, const PlannedPiece& piece);
// Whether that is a part, and not an empty one, of a whole of this shape.
bool IsWithin(const CheckpointPiece& piece, const std::vector<int64_t>& shape);

struct Index {
  int64_t step = 0;
  std::string run = "{}";
  TensorTable table = {};
};

// Error: `run` is no JSON object.
Result<std::string> IndexText(const Index& index);
// Checks that the pieces of each tensor are the whole. Error: page "broken-checkpoint", of `path`.
Result<Index> ParseIndex(std::string_view text, const std::string& path);

// Of one rank's save: its shard, or why there is none.
struct ShardRecord {
  FileSum shard = {};
  TensorTable table = {};
  std::string error = {};  // empty: all is well
};

std::string RecordText(const ShardRecord& record);
std::optional<ShardRecord> ParseRecord(std::string_view text);
// Adds a rank's table to that of others. Error: the name of what they have differently.
Status Merge(TensorTable table, TensorTable& all);

}  // namespace ddprun::trainer
