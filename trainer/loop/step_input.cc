#include "trainer/loop/step_input.h"

#include <chrono>
#include <utility>

namespace ddprun::trainer {

namespace {

using SteadyClock = std::chrono::steady_clock;

double SecondsOfInput(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

}  // namespace

std::vector<Batch> StepInput::Take() {
  const auto begin = SteadyClock::now();
  Ready next = ahead_ ? *std::exchange(ahead_, std::nullopt) : Load();
  seconds_ = SecondsOfInput(begin);
  if (next.error) std::rethrow_exception(next.error);
  taken_ = next.taken;
  return std::move(next.micro_batches);
}

void StepInput::Prefetch() {
  if (!mover_.copies() || ahead_) return;
  const auto begin = SteadyClock::now();
  ahead_ = Load();
  seconds_ += SecondsOfInput(begin);
}

// All of a step: the weight of each micro-batch depends on the samples of all.
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
