// Checkpoints for your own program, saved while it trains, so that it can stop and resume:
//
//   ddprun::install_stop_handler();
//   ddprun::Checkpointer checkpoints(net.module(), optimizer, group);
//   checkpoints.track("samples", samples);                 // numbers of your own
//   for (int64_t step = checkpoints.restore(); step < last;) {
//     ... forward, backward ...
//     checkpoints.wait_before_update();
//     optimizer.step();
//     ++step;
//     const bool stop = checkpoints.should_stop();
//     if (stop || step % 100 == 0) checkpoints.save(step);
//     if (stop) return ddprun::kStoppedStatus;               // the destructor waits for the save
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <ddprun/error.h>
#include <ddprun/mesh.h>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace ddprun {

// Where and how checkpoints are kept.
struct CheckpointerOptions {
  std::string folder = "checkpoints";  // all ranks see the same folder; made if missing
  int64_t keep = 2;                    // number of newest checkpoints to keep; 0: all
  double deadline_seconds = 1800;      // of a rank's save, to wait for other ranks
};

// The result of a save.
struct SaveOutcome {
  int64_t step = 0;
  std::string path;                 // of the checkpoint, if it was committed
  std::optional<Error> error = {};  // if set, only an unfinished folder is left
  int64_t bytes = 0;                // of all files on rank 0, of this rank's shard on others
  double copy_seconds = 0;          // from Begin() until the state was copied
  double stall_seconds = 0;         // of `copy_seconds`, the time that the owner waited
  double seconds = 0;               // from Begin() to the commit
  // Deleting surplus checkpoints failed; the new checkpoint itself is complete.
  std::optional<Error> not_deleted = {};
};

// Saves by name: the module's parameters and buffers, the optimizer's state (torch::optim's Adam,
// AdamW, SGD, RMSprop, Adagrad), its learning rates, and the program's own numbers. Saves no random
// state: seed from the step. One thread; all ranks call the same methods.
class Checkpointer {
 public:
  using Outcome = SaveOutcome;

  // A collective. The module and the optimizer must outlive it. `mesh`: the process group, as for
  // DistributedDataParallel, whose module() is `module`; default: one process. Throws Failure for
  // another kind of optimizer, and if the optimizer has a parameter that the module does not have.
  Checkpointer(torch::nn::Module& module,
               torch::optim::Optimizer& optimizer,
               const Mesh& mesh = {},
               const CheckpointerOptions& options = {});
  // Waits for the running save. If an exception leaves the loop, waits only for this rank's writes,
  // because other ranks may never come; the save then fails.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Adds a number to the state, equal on all ranks. It outlives this object. Call before restore().
  void track(const std::string& name, int64_t& number);

  // Loads the newest undamaged checkpoint, saved by any number of ranks, and returns its step; 0
  // means none. Renames newer checkpoints. A collective; call it once, before the first save.
  // Throws Failure if the checkpoint is of another model.
  int64_t restore();

  // Begins a save. Call it between two steps. A collective. Returns at once: the state is copied
  // and written during the next forward and backward. Waits for the save before. A failing disk is
  // reported in Outcome, never as an exception.
  void save(int64_t step);
  // Waits until the state is copied. Call it after backward, before the optimizer's update.
  void wait_before_update();
  // Returns the outcome of each ended save once; nullopt means that there is none.
  std::optional<Outcome> poll();
  // Waits for the running save, then returns poll().
  std::optional<Outcome> finish();

  // Returns whether any rank has got a stop signal (stop_requested), so that all ranks stop after
  // the same step. A collective.
  bool should_stop() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// From now on the first signal by which a launcher, a scheduler or Ctrl-C asks this program to stop
// only sets stop_requested(). A thread of its own handles the signals; the calling thread, and the
// threads and processes that it starts, block them. So call it before threads are started.
void install_stop_handler();
// Returns whether this process has got such a signal.
bool stop_requested();

// Returns the number of times that the launcher has restarted this program (ddprun --max_restarts,
// torchrun); 0 at first, and without a launcher.
int64_t restart_count();

}  // namespace ddprun
