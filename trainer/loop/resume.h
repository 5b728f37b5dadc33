// What a run goes on from, and in which folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/checkpointing.h"
#include "trainer/loop/job.h"
#include "trainer/parallel/mesh.h"
#include "trainer/report/run_folder.h"

namespace ddprun::trainer {

// Where a start of a run stands.
struct RunStart {
  RunFolder folder;
  CheckpointPlace place;
  std::optional<Checkpoint> checkpoint = {};  // that it goes on from; none: from the beginning
  std::vector<std::string> notes = {};        // lines
};

// As run.resume says: takes up the folder of a run, or makes a new one; its metrics end where the
// run goes on. On rank 0, once. Throws Failure: there is nothing to go on from (page
// "no-checkpoint"), another process trains there, or the folder cannot be written.
RunStart ChooseRunStart(const Config& config, const Environment& environment, double unix_seconds);

// What the other ranks need of rank 0's.
struct SharedStart {
  CheckpointPlace place;
  std::string checkpoint;  // its path; empty: none
};
// A collective. `own`: rank 0's.
SharedStart ShareStart(c10d::Backend* control, const SharedStart& own);

// Compares the run that `checkpoint` is of with the one that goes on from it: a line for each key
// that matters and has changed. Throws Failure where it cannot go on (page "cannot-resume").
std::vector<std::string> CompareRuns(const Checkpoint& checkpoint,
                                     const Job& job,
                                     const StepPlan& plan);

}  // namespace ddprun::trainer
