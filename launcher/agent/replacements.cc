#include "launcher/agent/replacements.h"

#include <unistd.h>

#include <algorithm>

namespace ddprun::launcher {

namespace {

// Most replacements in one attempt. A cause that kills so many workers will kill the next ones,
// too.
constexpr int kMostReplacements = 1000;

}  // namespace

Result<int> Replacements::Begin(const WorkerRecord& lost, int generation) {
  DDPRUN_TRY(MarkLost(recorder_, lost.local_rank, generation));
  if (!lost.error_file.empty()) ::unlink(lost.error_file.c_str());  // the lost worker's error file
  return generations_[lost.local_rank] = generation_ = generation;
}

Status Replacements::BeginElsewhere(int rank, int generation) {
  generation_ = generation;
  if (AllCanContinue()) return MarkLostElsewhere(recorder_, rank, generation);
  return Error{.what = "rank " + std::to_string(rank) + " was lost, and workers of this node " +
                       "cannot continue with another process in its place"};
}

bool Replacements::CanOutliveNode() const {
  return generation_ < kMostReplacements && workers_.EndedWell().empty() &&
         std::ranges::all_of(workers_.Living(), [this](const LiveWorker& worker) {
           // What a worker keeps in the memory of its node is gone with the node.
           return HasRecovered(worker.local_rank) && !flight_.Read(worker.local_rank)->keeps_state;
         });
}

// Other workers may be lost at the same time, or their replacements may still start: living workers
// that have the run's state wait for all of them.
bool Replacements::CanReplace(const WorkerRecord& lost, bool all_here) const {
  if (generation_ >= kMostReplacements) return false;
  // A worker that is lost before it has done a step might be lost again and again.
  if (!HasRecovered(lost.local_rank) || !AllCanContinue() || out_of_memory_(lost)) return false;
  return !all_here || std::ranges::any_of(workers_.Living(), [this](const LiveWorker& worker) {
    return HasRecovered(worker.local_rank);
  });
}

bool Replacements::AllCanContinue() const {
  return workers_.EndedWell().empty() &&
         std::ranges::all_of(workers_.Living(), [this](const LiveWorker& worker) {
           const auto flight = flight_.Read(worker.local_rank);
           if (!flight) return false;
           const bool is_starting =
               GenerationOf(worker.local_rank) > 0 && flight->phase == WorkerPhase::kStarting;
           return flight->recovery_generation || is_starting;
         });
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
