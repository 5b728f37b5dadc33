// The contents of index.json, and the records that ranks write for rank 0, which writes it.
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

// Returns the table of one rank's state, with the pieces that it writes to `file`.
TensorTable TableOf(const StateDict& state,
                    std::span<const PlannedPiece> pieces,
                    const std::string& file);

// Returns the offset in the whole tensor, and the shape, of a piece that a rank writes.
CheckpointPiece PlaceOf(const StateTensor& tensor, const PlannedPiece& piece);
// Returns whether `piece` is a non-empty part of a whole of this shape.
bool IsWithin(const CheckpointPiece& piece, const std::vector<int64_t>& shape);

struct Index {
  int64_t step = 0;
  std::string run = "{}";
  TensorTable table = {};
};

// Returns the text of index.json. Error: `run` is not a JSON object.
Result<std::string> IndexText(const Index& index);
// Parses the text, and checks that the pieces of each tensor make up the whole. Error: page
// "broken-checkpoint", with `path`.
Result<Index> ParseIndex(std::string_view text, const std::string& path);

// The result of one rank's save: its shard, or an error.
struct ShardRecord {
  FileSum shard = {};
  TensorTable table = {};
  std::string error = {};  // empty: no error
};

std::string RecordText(const ShardRecord& record);
std::optional<ShardRecord> ParseRecord(std::string_view text);
// Adds a rank's table to the other ranks' table. Error: the name of an entry in which they differ.
Status Merge(TensorTable table, TensorTable& all);

}  // namespace ddprun::trainer
