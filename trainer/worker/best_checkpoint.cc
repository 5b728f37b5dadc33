#include "trainer/worker/best_checkpoint.h"

#include <optional>
#include <vector>

#include "base/shell_text.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/report/format.h"
#include "trainer/worker/saved_job.h"

namespace ddprun::trainer {

namespace {

Result<std::optional<StoredCheckpoint>> FindBest(const std::string& folder) {
  DDPRUN_ASSIGN(const std::vector<StoredCheckpoint> all, ListCheckpoints(folder));
  return BestOf(all);
}

}  // namespace

// A checkpoint has a score if no step before it was better.
std::optional<StoredCheckpoint> BestOf(std::span<const StoredCheckpoint> stored) {
  std::optional<StoredCheckpoint> best;
  for (const StoredCheckpoint& one : stored) {
    if (one.score) best = one;
  }
  return best;
}

std::string BestText(const std::string& score, const std::string& folder) {
  const auto best = FindBest(folder);
  if (!best) return "which step was the best is not known: " + best.error().what;
  if (!*best) return "no checkpoint of this run has a " + score + " (checkpoint.save_best)";
  return "the best " + score + ", " + LossText(*(*best)->score) + ", was that of step " +
         std::to_string((*best)->step) + "; its weights: ddp-trainer checkpoint export " +
         QuoteForShell((*best)->path) + " --to=FOLDER";
}

int64_t LoadBest(const std::string& folder,
                 int64_t last_step,
                 Model& model,
                 const Observers& observers) {
  const auto best = FindBest(folder);
  if (best && !*best) return last_step;
  const auto checkpoint = best ? Checkpoint::Open((*best)->path) : best.error();
  if (!checkpoint) {
    observers.Note("warning: the best checkpoint cannot be read, so the last weights count: " +
                   checkpoint.error().what);
    return last_step;
  }
  LoadModel(*checkpoint, model);
  return (*best)->step;
}

}  // namespace ddprun::trainer
