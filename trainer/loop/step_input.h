// The batches of training, step by step, on their way from the loader to the model's device.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "trainer/data/batch_mover.h"
#include "trainer/data/loader.h"

namespace ddprun::trainer {

// Of one epoch. One thread: the loader's.
class StepInput {
 public:
  // Each step has `batches` of the loader, at the end of the epoch fewer; each is cut into `pieces`
  // (SplitBatch). `loader` and `mover` must outlive it.
  StepInput(Loader& loader, const BatchMover& mover, int64_t batches, int64_t pieces)
      : loader_(loader),
        mover_(mover),
        batches_(batches),
        pieces_(pieces),
        taken_(loader.taken()) {}

  // All micro-batches of the next step, for the thread's current stream; none after the last step.
  // Throws what the data set threw for one of them.
  std::vector<Batch> Take();

  // Has the next step's copied to the device while that computes this one, where there is a device:
  // call it when this step has been queued. What the data set throws waits for Take().
  void Prefetch();

  // Loader::taken() of the steps that were taken.
  int64_t taken() const { return taken_; }
  // That the last Take() and the calls of Prefetch() since then took.
  double seconds() const { return seconds_; }

 private:
  struct Ready {
    std::vector<Batch> micro_batches = {};
    std::exception_ptr error = {};
    int64_t taken = 0;
  };

  Ready Load();

  Loader& loader_;
  const BatchMover& mover_;
  const int64_t batches_;
  const int64_t pieces_;
  int64_t taken_;
  double seconds_ = 0;
  std::optional<Ready> ahead_;
};

}  // namespace ddprun::trainer
