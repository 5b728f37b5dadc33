// Saves state into a checkpoint beside the training that goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/error.h"
#include "base/pinned_memory.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

struct SaverOptions {
  std::string folder;      // of the checkpoints; made where it is missing; the same for all ranks
  RankPart part = {};      // which of the ranks that write; rank 0 commits
  double deadline = 1800;  // seconds that a rank waits for the others once its own part is written
  Retention retention = {};  // applied after each commit
  PinnedMemory pinned = {};  // for copies from a device; else Begin() waits for these
};

struct SaveRequest {
  int64_t step = 0;
  // A word that all ranks give alike and that no earlier start at this step had; of letters,
  // digits, '-' and '_'. One rank's own time is not such a word. One does for all saves of a saver.
  std::string attempt;
  std::string run = "{}";            // a JSON object for Checkpoint::run(); rank 0's counts
  std::optional<double> score = {};  // for Retention; rank 0's counts
  // Tensors of which every number has to be finite: with another one the save fails.
  std::set<std::string> finite = {};
};

// What became of a save.
struct SaveOutcome {
  int64_t step = 0;
  std::string path;                 // of the checkpoint, where there is no error
  std::optional<Error> error = {};  // nothing was changed but an unfinished folder of its own
  int64_t bytes = 0;                // of all files at rank 0, else those that this rank wrote
  double copy_seconds = 0;          // from Begin() until the state might change
  double stall_seconds = 0;         // of these, those that the owner waited
  double seconds = 0;               // from Begin() to the commit
  // Why what is no longer wanted could not be deleted; the checkpoint itself is there.
  std::optional<Error> not_deleted = {};
};

// One save at a time, on a thread of its own, which has a low priority once it has copied, and
// without LibTorch's threads:
//
//   saver.Begin(strategy.State(), {.step = step, .attempt = word});  // between two steps
//   ... forward, backward: the state does not change ...
//   saver.WaitForCopy();
//   ... the optimizer's step ...
//   if (auto outcome = saver.Poll()) ...
//
// All ranks of SaverOptions::part begin the same saves. A failing disk is an outcome, never an
// exception. One thread calls all methods.
class BackgroundSaver {
 public:
  explicit BackgroundSaver(SaverOptions options);
  // Waits for what this rank writes, but not for other ranks: call Finish() first where the save
  // under way is wanted.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Waits for the save before. `state` keeps its tensors alive; they must not change before
  // WaitForCopy(). What several ranks have (StateTensor::replicas) is taken to be the same
  // on those, and each stores a part of it: buffers that differ from rank 0's between steps have to
  // be made equal first (Strategy::BeforeEvaluation does).
  void Begin(StateDict state, SaveRequest request);

  // Returns when the state may change; helps copying until then. The seconds that it took; 0 where
  // no save is under way.
  double WaitForCopy();
  // The same for some of the state's tensors, those that share memory with these: they come next.
  double WaitForCopyOf(std::span<const at::Tensor> tensors);

  // Whether a save is under way, copying or writing.
  bool busy() const;
  // The outcome of the save before, once.
  std::optional<SaveOutcome> Poll();
  // The same, and waits for the save under way.
  std::optional<SaveOutcome> Finish();
  // Gives up waiting for other ranks, where it is known that one will not come: the save under way
  // ends with an error.
  void Abandon();

  // Takes the memory for copies of such a state now, in the background, instead of at the first
  // Begin(): as much as this rank writes.
  void Reserve(const StateDict& state);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Now, on this thread: Begin() and Finish().
SaveOutcome SaveCheckpoint(const SaverOptions& options, StateDict state, SaveRequest request);

}  // namespace ddprun::trainer
