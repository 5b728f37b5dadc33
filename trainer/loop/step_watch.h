// Gives up a step that would not end before SIGKILL: ranks stop between two micro-batches, restore
// the buffers, and save the state from before the step. The resumed run repeats the step. All ranks
// must give up together, so they ask each other, but only in long steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <ddprun/mesh.h>
#include "trainer/loop/run_state.h"
#include "trainer/loop/step_boundary.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// StepWatch throws it through Strategy::ForwardBackward(), on all ranks.
struct StepGivenUp {};

// One thread.
class StepWatch {
 public:
  // `asked` returns this process's grace. Without this call no step is given up.
  void Ask(std::function<StopGrace()> asked) { asked_ = std::move(asked); }
  bool asks() const { return asked_ != nullptr; }

  // Begins a step of this many micro-batches on this rank. If the step may be given up, ranks ask
  // each other between its parts, of which all ranks have equally many.
  void Begin(const RunState& run, size_t micro_batches);
  // Throws StepGivenUp. `save_seconds` is the argument of IsTooLate().
  void BeforeMicroBatch(const Mesh& mesh, double save_seconds);
  // Restores the model's buffers, which forward changes, to their values before the step.
  void GiveUp(const Model& model);
  bool gave_up() const { return gave_up_; }

  // Return whether a process that must stop has no time left to wait, and whether after `rest`
  // seconds it would be too late to save.
  bool TimeIsOver() const { return asked_ && IsOver(asked_()); }
  bool IsTooLate(double rest, double save_seconds) const {
    return asked_ && trainer::IsTooLate(rest, save_seconds, asked_());
  }

  // Returns Votes::watch of this rank. Call it at the end of the step, or later.
  bool WantsNext() const { return asked_ && IsLongStep(Seconds(), asked_()); }
  // Sets whether a rank has voted to watch the next step.
  void SetNext(bool watched) { next_ = watched; }
  bool next() const { return next_; }

 private:
  size_t PartsOf(const RunState& run, size_t micro_batches) const;
  using Clock = std::chrono::steady_clock;
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  std::function<StopGrace()> asked_;
  Clock::time_point began_ = {};
  size_t micro_batches_ = 1;
  size_t parts_ = 0;
  size_t done_ = 0;
  bool next_ = false;
  bool gave_up_ = false;
  std::vector<at::Tensor> buffers_;  // copies
};

}  // namespace ddprun::trainer
