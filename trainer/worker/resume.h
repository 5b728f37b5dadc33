// Finds the checkpoint from which a run resumes, and the run's folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/checkpointing.h"
#include "trainer/report/run_folder.h"
#include "trainer/worker/compare_runs.h"

namespace ddprun::trainer {

// The folder and the checkpoint of one start of a run.
struct RunStart {
  RunFolder folder = {};
  CheckpointPlace place = {};
  // The run resumes from it. Its shards are not checked yet. nullopt: training begins at step 1.
  std::optional<Checkpoint> checkpoint = {};
  std::string wanted = {};                // path of run.resume that must have a checkpoint
  std::vector<std::string> notes = {};    // lines
  std::vector<std::string> changes = {};  // CompareRuns() of the checkpoint
  double unix_seconds = 0;
  bool begun = false;  // the run's files may be written
  // Seconds from the last line of the earlier start to this start, if a user has started the run
  // again. < 0 means that the clock went back.
  double idle_seconds = 0;
};

// Returns whether the launcher has started the job's workers before: it restarts them after a
// failure, and in each round of an elastic job.
bool IsRestart(const Environment& environment);

// Opens the run folder that run.resume means, and changes nothing in it. If there is none, the
// result has no folder. Call it on one rank. Throws Failure if there is no checkpoint to resume
// from (page "no-checkpoint"), another process trains in the folder, or a file cannot be read.
RunStart FindRunStart(const Config& config, const Environment& environment);
// Returns the folders of this SLURM job's runs whose config differs from `config`, if they have its
// name: the runs that FindRunStart() passes over after somebody has changed the config's file.
std::vector<std::string> FoldersOfOtherConfigs(const Config& config,
                                               const Environment& environment);
// Calls FindRunStart(), and makes a new folder if there is none. Call it once, on rank 0.
RunStart ChooseRunStart(const Config& config, const Environment& environment, double unix_seconds);

// Replaces the damaged checkpoint of `start` by the checkpoint before it. Call it on rank 0. Throws
// `damage` if there is no earlier checkpoint; see also FindRunStart().
void PassOver(const Error& damage, RunStart& start);

// Prepares the run's folder for writing: removes the metrics of later steps than the checkpoint's,
// and moves their checkpoints aside. Call it on rank 0, when the run can resume. Throws Failure.
void BeginRun(RunStart& start, const Config& config, const Environment& environment);

// Opens the folder of the running run, for a rank 0 that replaces a lost rank 0. Throws Failure.
RunFolder TakeOverRun(const std::string& path,
                      const Config& config,
                      const Environment& environment);

// The part of rank 0's RunStart that the other ranks need.
struct SharedStart {
  CheckpointPlace place;
  SavedRun saved = {};
};
// A collective. Returns rank 0's `own` on all ranks.
SharedStart ShareStart(c10d::Backend* control, const SharedStart& own);

// Which ranks see the folder that rank 0 writes checkpoints to.
struct FolderView {
  bool by_all = true;
  // This rank among the ranks that see the folder; nullopt: it does not see the folder.
  std::optional<RankPart> part = RankPart();
};
// A collective. Rank 0 writes a file to the folder, and all ranks look for it. If rank 0 cannot
// write, the result is that all ranks see the folder, and each save reports its error.
FolderView LookAtFolder(const CheckpointPlace& place, c10d::Backend* control);

}  // namespace ddprun::trainer
