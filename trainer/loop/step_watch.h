// A step that would not end before the process is killed is given up between two micro-batches:
// what it has changed is put back, the state of before is saved, and the step is done after the run
// has been taken up again. Ranks have to give it up alike, so they ask each other; only in steps so
// long that it may be needed.
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

// Is thrown through Strategy::ForwardBackward, on all ranks alike.
struct StepGivenUp {};

// One thread.
class StepWatch {
 public:
  // Without it no step is given up.
  void Ask(std::function<StopGrace()> asked) { asked_ = std::move(asked); }
  bool asks() const { return asked_ != nullptr; }

  // A step of so many micro-batches on this rank begins. If it may be given up, ranks ask each
  // other between equally many parts of it on all ranks.
  void Begin(const RunState& run, size_t micro_batches);
  // Throws StepGivenUp. `save_seconds`: of IsTooLate.
  void BeforeMicroBatch(const Mesh& mesh, double save_seconds);
  // Buffers of the model, which forward changes, become what they were when the step began.
  void GiveUp(const Model& model);
  bool gave_up() const { return gave_up_; }

  // Of a process that is to stop: whether what is left of its time is too short to wait any longer;
  // whether, after `rest` seconds, it would be too short to save the state.
  bool TimeIsOver() const { return asked_ && IsOver(asked_()); }
  bool IsTooLate(double rest, double save_seconds) const {
    return asked_ && trainer::IsTooLate(rest, save_seconds, asked_());
  }

  // Votes::watch of this rank, after the step or at its end.
  bool WantsNext() const { return asked_ && IsLongStep(Seconds(), asked_()); }
  // Whether a rank has voted so for the step to come.
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
