#include "launcher/agent/replacements.h"

#include <unistd.h>

namespace ddprun::launcher {

namespace {

// Most replacements in one attempt. A cause that kills so many workers will kill the next ones,
// too.
constexpr int kMostReplacements = 1000;

}  // namespace

std::optional<int> Replacements::Begin(const WorkerRecord& lost) {
  if (!CanReplace(lost) || !MarkLost(recorder_, lost.local_rank, generation_ + 1).ok()) {
    return std::nullopt;
  }
  if (!lost.error_file.empty()) ::unlink(lost.error_file.c_str());  // the lost worker's error file
  return generations_[lost.local_rank] = ++generation_;
}

// Other workers may be lost at the same time, or their replacements may still start: living workers
// that have the run's state wait for all of them.
bool Replacements::CanReplace(const WorkerRecord& lost) const {
  if (generation_ == kMostReplacements) return false;
  // A worker that is lost before it has done a step might be lost again and again.
  if (!HasRecovered(lost.local_rank) || !workers_.EndedWell().empty()) return false;
  bool state_is_left = false;
  for (const LiveWorker& worker : workers_.Living()) {
    const auto flight = flight_.Read(worker.local_rank);
    if (!flight) return false;
    const bool is_starting =
        GenerationOf(worker.local_rank) > 0 && flight->phase == WorkerPhase::kStarting;
    if (!flight->recovery_generation && !is_starting) return false;
    state_is_left = state_is_left || HasRecovered(worker.local_rank);
  }
  return state_is_left && !out_of_memory_(lost);
}

bool Replacements::HasRecovered(int local_rank) const {
  const auto flight = flight_.Read(local_rank);
  // A number beyond the newest generation is none that the worker has written.
  return flight && flight->recovery_generation &&
         *flight->recovery_generation >= GenerationOf(local_rank) &&
         *flight->recovery_generation <= generation_;
}

int Replacements::GenerationOf(int local_rank) const {
  const auto found = generations_.find(local_rank);
  return found == generations_.end() ? 0 : found->second;
}

}  // namespace ddprun::launcher
