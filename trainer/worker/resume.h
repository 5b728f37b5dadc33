// What a run goes on from, and in which folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"
#include "trainer/loop/checkpointing.h"
#include "trainer/report/run_folder.h"

namespace ddprun::trainer {

// Where a start of a run stands.
struct RunStart {
  RunFolder folder = {};
  CheckpointPlace place = {};
  // That it goes on from, its shards not looked at yet; none: from the beginning.
  std::optional<Checkpoint> checkpoint = {};
  std::string wanted = {};              // by run.resume: a path that must have a checkpoint
  std::vector<std::string> notes = {};  // lines
  double unix_seconds = 0;
  bool begun = false;  // BeginRun
  // From the last line of the start before until this one, where somebody made it later; < 0: the
  // clock went back.
  double idle_seconds = 0;
};

// Whether the launcher has started the job's workers before: after a failure, or in another round
// of an elastic job.
bool IsRestart(const Environment& environment);

// As run.resume says: opens the folder of a run, which changes nothing in it. Without a folder the
// run is to make a new one. On one rank. Throws Failure: there is nothing to go on from (page
// "no-checkpoint"), another process trains there, or something cannot be read, so that nobody
// knows.
RunStart FindRunStart(const Config& config, const Environment& environment);
// The same for a run that begins: makes a new folder where it needs one. On rank 0, once.
RunStart ChooseRunStart(const Config& config, const Environment& environment, double unix_seconds);

// On rank 0, where `damage` was found in the checkpoint: takes the one before, if there is one.
// Throws Failure as above.
void PassOver(const Error& damage, RunStart& start);

// On rank 0, once it is known that the run goes on from the checkpoint: from here on its folder is
// written to. Metrics end where the run goes on, and what later steps left is out of the way.
// Throws Failure.
void BeginRun(RunStart& start, const Config& config, const Environment& environment);

// For a rank 0 that takes the place of a lost one: the folder of the run under way, which that one
// had. Throws Failure.
RunFolder TakeOverRun(const std::string& path,
                      const Config& config,
                      const Environment& environment);
// Of a checkpoint: what a run that goes on from it is compared with.
struct SavedRun {
  SavedRun() = default;
  SavedRun(const Checkpoint& checkpoint);

  std::string path = {};  // empty: there is none
  std::string run = {};   // Checkpoint::run()
  bool model_only = false;
};

// What the other ranks need of rank 0's.
struct SharedStart {
  CheckpointPlace place;
  SavedRun saved = {};
};
// A collective. `own`: rank 0's.
SharedStart ShareStart(c10d::Backend* control, const SharedStart& own);

// Which ranks see the folder that rank 0 writes checkpoints to.
struct FolderView {
  bool by_all = true;
  // This rank among those that see it; nullopt: it does not.
  std::optional<RankPart> part = RankPart();
};
// A collective: rank 0 leaves a file in the folder, and all look for it. Where rank 0 cannot write
// there, all are taken to see it, and each save says what is in the way.
FolderView LookAtFolder(const CheckpointPlace& place, c10d::Backend* control);

// Compares the saved run with the one that goes on from it: a line for each key that matters and
// has changed. Throws Failure where it cannot go on (page "cannot-resume").
std::vector<std::string> CompareRuns(const SavedRun& saved, const Job& job, const StepPlan& plan);

}  // namespace ddprun::trainer
