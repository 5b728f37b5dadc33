#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/suggest.h"
#include "trainer/config/checker.h"

namespace ddprun::trainer {

void Checker::CheckScheduler() {
  const double warmup = config_.scheduler.warmup_steps;
  if (warmup < 1 || std::trunc(warmup) == warmup) return;
  Conflict("scheduler.warmup_steps",
           "From 1 on this is a number of steps, which cannot have a fraction:",
           "Below 1 it is a share of the run: 0.1 warms up over the first tenth.");
}

void Checker::CheckStrategy() {
  if (!config_.strategy.gradient_as_bucket_view) {
    Conflict("strategy.gradient_as_bucket_view",
             "Gradients are always views of their buckets here, so this cannot be false:",
             "Remove the key. No gradient is kept twice, and none is copied back.");
  }
  const Overlap overlap = config_.strategy.overlap;
  if (overlap == Overlap::kBackward || overlap == Overlap::kNone) return;
  Config config = config_;
  if (config.training.max_grad_norm == 0) return;
  Conflict("strategy.overlap",
           "The optimizer starts before all gradients are reduced, but training.max_grad_norm (" +
               SlotText(&config.training.max_grad_norm) + ") needs the norm of all:",
           "Set training.max_grad_norm to 0, or strategy.overlap to \"backward\".");
}

void Checker::CheckMetrics() {
  const auto words = WordsOf(Metric{});
  const std::vector<std::string> known(words.begin(), words.end());
  for (const std::string& metric : config_.evaluation.metrics) {
    if (std::ranges::find(known, metric) != known.end()) continue;
    std::string accepted;
    for (const std::string& word : known)
      accepted += (accepted.empty() ? "\"" : ", \"") + word + "\"";
    const auto nearest = Nearest(metric, known);
    problems_->Add(entries_.ErrorAbout(
        "evaluation.metrics", {.title = "UNKNOWN CHOICE",
                               .page = "unknown-choice",
                               .found = "\"" + metric + "\" is no metric:",
                               .expected = "Accepted: a list of " + accepted + ".",
                               .hint = nearest ? "Did you mean \"" + *nearest + "\"?" : ""}));
  }
}

}  // namespace ddprun::trainer
