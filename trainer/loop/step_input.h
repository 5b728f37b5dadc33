// Moves the batches of each training step from the loader to the model's device.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "trainer/data/batch_mover.h"
#include "trainer/data/loader.h"

namespace ddprun::trainer {

// The input of one epoch. Used by the loader's thread.
class StepInput {
 public:
  // A step takes `batches` of the loader, or fewer at the end of the epoch, and splits each batch
  // into `pieces` (SplitBatch). `loader` and `mover` must outlive it.
  StepInput(Loader& loader, const BatchMover& mover, int64_t batches, int64_t pieces)
      : loader_(loader),
        mover_(mover),
        batches_(batches),
        pieces_(pieces),
        taken_(loader.taken()) {}

  // Returns all micro-batches of the next step, for the thread's current stream; none after the
  // last step. Throws the data set's exceptions.
  std::vector<Batch> Take();

  // Copies the next step's micro-batches to the device while the device computes this step. Call it
  // when this step is queued. If the data set throws, Take() throws the exception later.
  void Prefetch();

  // Returns Loader::taken() after the last Take().
  int64_t taken() const { return taken_; }
  // Returns the time of the last Take() and of the calls of Prefetch() since then.
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
