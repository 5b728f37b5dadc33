#include "trainer/loop/evaluations.h"

#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/job/options_of.h"
#include "trainer/report/format.h"

namespace ddprun::trainer {

bool Evaluations::IsDue() const {
  if (run_.job.validation == nullptr) return false;
  if (run_.step == 0) {  // a rank that replaces a lost one may know its report already
    return run_.job.config.evaluation.eval_on_start && last_.samples == 0;
  }
  return run_.step == run_.plan.total_steps ||
         trainer::IsDue(run_.job.config.evaluation.eval_steps, run_.step, run_.plan);
}

bool Evaluations::IsOwed(bool by_checkpoint) const {
  return run_.step == 0 ? IsDue() : by_checkpoint && run_.job.validation != nullptr;
}

void Evaluations::Begin() {
  running_ = true;
}

void Evaluations::End() {
  running_ = false;
  ShowAverages(false);
}

void Evaluations::Note(EvalReport report) {
  report.step = run_.step;
  report.epoch = static_cast<double>(run_.step) / static_cast<double>(run_.plan.steps_per_epoch);
  last_ = std::move(report);
  if (run_.observers != nullptr) run_.observers->Notify(&Observer::OnEval, last_);
  if (run_.step > 0) LowerLearningRate();
}

void Evaluations::ShowAverages(bool wanted) {
  if (run_.job.config.optimizer.ema_decay == 0 || shows_averages_ == wanted) return;
  run_.strategy->SwapAverages();
  shows_averages_ = wanted;
}

void Evaluations::LowerLearningRate() {
  const Config& config = run_.job.config;
  const std::string metric = DecidingMetric(config);
  const std::optional<double> value = ValueOf(last_, metric);
  if (!value || !run_.plateau.Note(*value)) return;
  if (run_.observers == nullptr || run_.step == run_.plan.total_steps) return;
  run_.observers->Note("the learning rate falls to " +
                       Exponent(config.optimizer.learning_rate * run_.plateau.factor()) + ": " +
                       metric + " has not improved in " +
                       CountText(config.scheduler.plateau_patience + 1, "evaluation") +
                       " (scheduler.plateau_patience)");
}

void Evaluations::NameUnsaved(StateVisitor& visitor) {
  VisitReport(visitor, last_);
  visitor.Section("evaluations.");
  const auto visit = [&](const char* name, bool& flag) {
    auto number = static_cast<int64_t>(flag);
    visitor.Number(name, number);
    flag = number != 0;
  };
  visit("running", running_);
  visit("shows_averages", shows_averages_);
}

}  // namespace ddprun::trainer
