// The folder that holds a run's checkpoints: step-N, and the hint `latest`, a link to the one
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
  std::optional<double> score = {};  // none, too, where COMMIT is damaged
};

// By step, the oldest first; nothing is verified. A folder that is not there holds none. Error:
// what there is cannot be read ("unreadable-checkpoint").
Result<std::vector<StoredCheckpoint>> ListCheckpoints(const std::string& folder);

struct NewestCheckpoint {
  std::optional<Checkpoint> checkpoint = {};
  std::vector<Error> passed_over = {};  // of newer steps: why they were not taken
};
// The one of the highest step below `before` that is what was committed, as far as `verify` looks.
// Where several processes go on from it, one calls this and the others open its path with
// Verify::kSizes, so that all have the same. Error: one cannot be read, so that nobody knows which
// it is.
Result<NewestCheckpoint> OpenNewest(const std::string& folder,
                                    Verify verify = Verify::kChecksums,
                                    int64_t before = INT64_MAX);

// Which checkpoints stay: the newest and the best, each with a limit of its own.
struct Retention {
  int64_t newest = 0;  // 0: all
  int64_t best = 1;    // of those with a score; 0: all of them
  bool higher_is_better = false;
};

// Which of `stored` (any order) are to be deleted once `committed`, a step among them, is there. It
// and steps after it stay: the run has not come to those. Of equal scores the newer is the better;
// a score that is no number counts as none.
std::vector<StoredCheckpoint> Surplus(std::span<const StoredCheckpoint> stored,
                                      int64_t committed,
                                      const Retention& retention);

// At the start of a run that goes on from `step` (0: from nothing), on one rank, before any save:
// removes what earlier attempts left unfinished. Checkpoints of later steps, which the run did not
// take, get a name of their own ("step-N.aside-K") in place of one that could be taken for its own.
// Nothing to do where there is no folder. Error: what is in the way (page "cannot-write").
Status PrepareCheckpointFolder(const std::string& folder, int64_t step);

// For the saver: what is unfinished of no later step than this, but for the folder `keep`; and a
// checkpoint that is not wanted any more, which loses its name first.
Status RemoveUnfinished(const std::string& folder, int64_t step, const std::string& keep = "");
Status RemoveCheckpoint(const std::string& path);

// Whether a file of this name is one that savers write (base/owned_folder.h).
bool IsCheckpointFile(const std::string& folder, const std::string& name);

// The folder of a step.
std::string CheckpointPath(const std::string& folder, int64_t step);

}  // namespace ddprun::trainer
