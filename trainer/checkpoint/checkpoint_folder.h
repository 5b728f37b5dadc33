// The folder of a run's checkpoints: step-N, and the hint `latest`, a link to the one that was
// committed last.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainer/checkpoint/checkpoint.h"

namespace ddprun::trainer {

struct StoredCheckpoint {
  std::string path;
  int64_t step = 0;
  std::optional<double> score = {};  // also none if COMMIT is damaged
};

// Lists the checkpoints by step, the oldest first, without verifying them. A folder that does not
// exist has none. Error: the folder or a COMMIT cannot be read ("unreadable-checkpoint").
Result<std::vector<StoredCheckpoint>> ListCheckpoints(const std::string& folder);

struct NewestCheckpoint {
  std::optional<Checkpoint> checkpoint = {};
  std::vector<Error> skipped = {};  // the errors of newer checkpoints
};
// Opens the newest checkpoint with a step below `before` that is undamaged, as far as `verify`
// checks. If several processes resume from it, one calls this function and the others open its path
// with Verify::kSizes, so that all have the same. Error: a checkpoint cannot be read, so that the
// newest one is unknown.
Result<NewestCheckpoint> OpenNewest(const std::string& folder,
                                    Verify verify = Verify::kChecksums,
                                    int64_t before = INT64_MAX);

// The checkpoints to keep: the newest and the best, each with its own limit.
struct Retention {
  int64_t newest = 0;  // 0: all
  int64_t best = 1;    // of those with a score; 0: all of them
  bool higher_is_better = false;
};

// Returns which of `stored` (in any order) to delete after the commit of step `committed`, which is
// one of them. Keeps this step and later ones, because the run has not reached these yet. The newer
// of equal scores is better; NaN counts as no score.
std::vector<StoredCheckpoint> FindSurplus(std::span<const StoredCheckpoint> stored,
                                          int64_t committed,
                                          const Retention& retention);

// Prepares the folder at the start of a run that resumes from `step` (0: a new run), on one rank,
// before any save. Removes unfinished saves of earlier attempts. Renames checkpoints of later
// steps, from which the run did not resume, to "step-N.aside-K", so that they are not taken for its
// own. Does nothing if there is no folder. Error: the path in the way (page "cannot-write").
Status PrepareCheckpointFolder(const std::string& folder, int64_t step);

// For the saver. RemoveUnfinished() removes unfinished saves up to `step`, except for the folder
// `keep`. RemoveCheckpoint() renames a checkpoint and then deletes it.
Status RemoveUnfinished(const std::string& folder, int64_t step, const std::string& keep = "");
Status RemoveCheckpoint(const std::string& path);

// Returns whether savers write a file of exactly this name (base/owned_folder.h).
bool IsCheckpointFile(const std::string& folder, const std::string& name);

// Returns the folder of a step.
std::string CheckpointPath(const std::string& folder, int64_t step);

}  // namespace ddprun::trainer
