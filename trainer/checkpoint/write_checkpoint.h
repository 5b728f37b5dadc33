// One rank's part of writing a checkpoint, and rank 0's commit.
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

struct Writing {
  SaverOptions options;
  SaveRequest request;
  TensorTable table;  // of this rank
  // The shard: what stands before the tensors, and they.
  std::string header;
  std::string_view bytes;
};

// "shard-00000-of-00004.safetensors"
std::string ShardName(RankPart part);
// "step-1200.tmp-ATTEMPT", in the folder of the checkpoints.
std::string UnfinishedPath(const SaverOptions& options, const SaveRequest& request);

// Returns when rank 0 has committed. Sets path, bytes and what a commit is followed by of the
// outcome. `abandoned`: do not wait for other ranks any longer.
Status WriteCheckpoint(const Writing& writing,
                       const std::atomic<bool>& abandoned,
                       SaveOutcome& outcome);
// After any failure, also one before WriteCheckpoint: nothing of this rank's part will be taken for
// a checkpoint, and the other ranks find the error in place of its record.
void GiveUpCheckpoint(const Writing& writing, const Error& error);

}  // namespace ddprun::trainer
