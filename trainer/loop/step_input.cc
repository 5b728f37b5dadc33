#include "trainer/loop/step_input.h"

#include <utility>

#include "trainer/parallel/stopwatch.h"

namespace ddprun::trainer {

std::vector<Batch> StepInput::Take() {
  seconds_ = 0;
  const Stopwatch stopwatch(seconds_);
  Ready next = ahead_ ? *std::exchange(ahead_, std::nullopt) : Load();
  if (next.error) std::rethrow_exception(next.error);
  taken_ = next.taken;
  return std::move(next.micro_batches);
}

void StepInput::Prefetch() {
  if (!mover_.copies() || ahead_) return;
  const Stopwatch stopwatch(seconds_);
  ahead_ = Load();
}

// Loads all of a step, because the weight of each micro-batch depends on the samples of all.
StepInput::Ready StepInput::Load() {
  Ready ready;
  try {
    for (int64_t i = 0; i < batches_; ++i) {
      std::optional<Batch> batch = loader_.Next();
      if (!batch) break;
      for (Batch& piece : SplitBatch(*std::move(batch), pieces_)) {
        ready.micro_batches.push_back(mover_.Move(std::move(piece)));
      }
    }
  } catch (...) {
    ready.error = std::current_exception();
  }
  ready.taken = loader_.taken();
  return ready;
}

}  // namespace ddprun::trainer
