// Saves state into a checkpoint while training continues.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include <ddprun/checkpointer.h>
#include <ddprun/error.h>
#include "base/pinned_memory.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

struct SaverOptions {
  std::string folder;        // of the checkpoints; made if missing; equal on all ranks
  RankPart part = {};        // this rank among those that write; rank 0 commits
  double deadline = 1800;    // seconds that a rank waits for others after writing its part
  Retention retention = {};  // applied after each commit
  PinnedMemory pinned = {};  // for copies from a device; without it Begin() waits for these
};

struct SaveRequest {
  int64_t step = 0;
  // A word of letters, digits, '-' and '_', equal on all ranks, which no earlier start has used at
  // this step. One word is enough for all saves of a saver.
  std::string attempt;
  std::string run = "{}";            // a JSON object for Checkpoint::run(); only rank 0's is used
  std::optional<double> score = {};  // for Retention; only rank 0's is used
  // Names of tensors; the save fails if one of them has a number that is NaN or infinite.
  std::set<std::string> finite = {};
};

// Runs one save at a time, on its own thread, which has a low priority after the copy and does not
// use LibTorch's threads:
//
//   saver.Begin(strategy.State(), {.step = step, .attempt = word});  // between two steps
//   ... forward, backward: the state does not change ...
//   saver.WaitForCopy();
//   ... the optimizer's step ...
//   if (auto outcome = saver.Poll()) ...
//
// All ranks of SaverOptions::part begin the same saves. A failing disk is reported in SaveOutcome,
// never as an exception. One thread calls all methods.
class BackgroundSaver {
 public:
  explicit BackgroundSaver(SaverOptions options);
  // Waits for this rank's writes, but not for other ranks: the running save may fail. Call Finish()
  // before if it must succeed.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Waits for the save before. `state` keeps its tensors alive; they must not change before
  // WaitForCopy(). Tensors of several ranks (StateTensor::replicas) must be equal, because each
  // rank stores a part: first make buffers equal (Strategy::BeforeEvaluation does).
  void Begin(StateDict state, SaveRequest request);

  // Waits until the state may change, and helps to copy it. Returns the seconds that it took; 0 if
  // no save is running.
  double WaitForCopy();
  // Waits only for tensors that share memory with these, which it copies first.
  double WaitForCopyOf(std::span<const at::Tensor> tensors);

  // Returns whether a save is copying or writing.
  bool busy() const;
  // Returns each ended save's outcome once, the oldest first; nullopt means none.
  std::optional<SaveOutcome> Poll();
  // Waits for the running save, then returns Poll().
  std::optional<SaveOutcome> Finish();
  // Stops waiting for other ranks, because one is lost: the running save ends with an error.
  void Abandon();

  // Allocates the memory for copies of this rank's part of `state` now, in the background, instead
  // of in the first Begin().
  void Reserve(const StateDict& state);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Saves on this thread: Begin(), then Finish().
SaveOutcome SaveCheckpoint(const SaverOptions& options, StateDict state, SaveRequest request);

}  // namespace ddprun::trainer
