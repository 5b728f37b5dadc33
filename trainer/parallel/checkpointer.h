// Checkpoints of a program of your own, saved beside its training, and what a program needs to be
// stopped and started again at any time:
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

#include "trainer/checkpoint/saver.h"
#include "trainer/parallel/mesh.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace ddprun {

struct CheckpointerOptions {
  std::string folder = "checkpoints";  // all ranks see the same one; made where it is missing
  int64_t keep = 2;                    // the newest so many; 0: all
  double deadline_seconds = 1800;      // that a rank's save waits for the other ranks
};

// Parameters and buffers of the module, the state of the optimizer (torch::optim's Adam, AdamW,
// SGD, RMSprop, Adagrad) and its learning rates, by name; and numbers of the program's own. Random
// numbers are not among them: seed them from the step. One thread; all ranks call the same methods.
class Checkpointer {
 public:
  using Outcome = trainer::SaveOutcome;

  // A collective. The module and the optimizer must outlive it. `mesh`: the process group, as for
  // DistributedDataParallel, whose module() this is; none: one process. Throws Failure for an
  // optimizer of another kind, and for one with parameters that the module does not have.
  Checkpointer(torch::nn::Module& module,
               torch::optim::Optimizer& optimizer,
               const trainer::Mesh& mesh = {},
               const CheckpointerOptions& options = {});
  // Waits for the save under way. Where an exception leaves the loop, it waits only for what this
  // rank writes: the other ranks may never come, and the save then fails.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // A number to be saved and restored, the same on all ranks; it must outlive this. Before restore.
  void track(const std::string& name, int64_t& number);

  // A collective, once, before the first save. Takes the state of the newest checkpoint that
  // verifies, whatever the number of ranks was, and returns its step; 0: there is none. Newer ones
  // that were not taken are kept under another name. Throws Failure for one of another model.
  int64_t restore();

  // Between two steps, a collective. Returns at once: the state is copied and written beside the
  // next forward and backward. Waits for the save before, if that is not through. A failing disk is
  // an outcome, never an exception.
  void save(int64_t step);
  // After backward, before the optimizer changes the state: waits for the rest of the copy.
  void wait_before_update();
  // What has become of the last save, once; nothing while it is under way.
  std::optional<Outcome> poll();
  // The same, and waits for it.
  std::optional<Outcome> finish();

  // A collective: whether any rank has been asked to stop (stop_requested), so that all stop after
  // the same step.
  bool should_stop() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// From now on the signals by which a launcher, a scheduler or Ctrl-C asks a program to end are
// noted and do nothing else (base/stop_signals.h).
void install_stop_handler();
// Whether one of them has come to this process.
bool stop_requested();

// How often the launcher has started this program's group again (ddprun --max_restarts, torchrun);
// 0: the first time, or no launcher.
int64_t restart_count();

}  // namespace ddprun
