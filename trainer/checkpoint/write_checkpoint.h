// Writes one rank's part of a checkpoint, and rank 0's commit.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trainer/checkpoint/index.h"
#include "trainer/checkpoint/saver.h"

namespace ddprun::trainer {

struct PreparedShard {
  SaverOptions options;
  SaveRequest request;
  TensorTable table;  // of this rank
  // The shard: a header, and the bytes of the tensors.
  std::string header;
  std::string_view bytes;
};

// Returns "shard-00000-of-00004.safetensors".
std::string ShardName(RankPart part);
// Returns "step-1200.tmp-ATTEMPT" in the folder of the checkpoints.
std::string UnfinishedPath(const SaverOptions& options, const SaveRequest& request);

// Writes this rank's part and waits until rank 0 has committed. Sets path, bytes and the results of
// the work after a commit in `outcome`. `abandoned`: stop waiting for other ranks.
Status WriteCheckpoint(const PreparedShard& writing,
                       const std::atomic<bool>& abandoned,
                       SaveOutcome& outcome);
// Gives up this rank's part after any failure, even one before WriteCheckpoint(). The part is then
// never taken for a checkpoint, and the other ranks find the error instead of its record.
void AbandonShard(const PreparedShard& writing, const Error& error);

}  // namespace ddprun::trainer
