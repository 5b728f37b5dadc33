#include "trainer/loop/checkpointing.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "base/metric_order.h"
#include "base/step_phase.h"
#include "base/text.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/job/options_of.h"
#include "trainer/job/run_text.h"
#include "trainer/job/step_plan.h"
#include "trainer/parallel/peer_state.h"

namespace ddprun::trainer {

namespace {

std::set<std::string> ParameterNames(const Model& model) {
  std::set<std::string> names;
  for (const auto& item : model.named_parameters()) names.insert("model." + item.key());
  return names;
}

// Returns the tensors that change before the update: all but the optimizer's state and the tensors
// that it updates.
std::vector<at::Tensor> ChangedInBackward(const StateDict& state,
                                          const std::set<std::string>& updated) {
  std::vector<at::Tensor> changed;
  for (const StateTensor& tensor : state.tensors) {
    if (tensor.name.starts_with("optimizer.") || updated.contains(tensor.name)) continue;
    changed.push_back(tensor.tensor);
  }
  return changed;
}

void KeepModelOnly(StateDict& state) {
  std::erase_if(state.tensors, [](const StateTensor& tensor) {
    return !tensor.name.starts_with("model.") && !tensor.name.ends_with(AverageName(""));
  });
  state.numbers.clear();
}

}  // namespace

Checkpointing::Checkpointing(const Job& job, StepPlan& plan)
    : job_(job),
      plan_(plan),
      boundary_(job.config.checkpoint, plan),
      early_(job.config.evaluation, HigherIsBetter(DecidingMetric(job.config))),
      best_(std::numeric_limits<double>::quiet_NaN()) {}

Checkpointing::~Checkpointing() = default;

void Checkpointing::SaveTo(const CheckpointPlace& place, std::optional<RankPart> part) {
  const CheckpointConfig& config = job_.config.checkpoint;
  place_ = place;
  if (!part) return;
  saver_ = std::make_unique<BackgroundSaver>(SaverOptions{
      .folder = place.folder,
      .part = *part,
      .retention = {.newest = config.save_total_limit,
                    .best = config.save_total_limit_best,
                    .higher_is_better = HigherIsBetter(config.save_best)},
      .pinned = job_.device.module != nullptr ? job_.device.module->pinned : PinnedMemory()});
}

double Checkpointing::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

Votes Checkpointing::OwnVotes(bool stop) const {
  Votes votes = boundary_.VotesAt(Seconds(), saving(), stop);
  if (requests_ == nullptr) return votes;
  const RunRequests::Asked asked = requests_->Look();
  votes.save = votes.save || asked.save;
  votes.stop = votes.stop || asked.stop;
  votes.end = asked.stop;
  return votes;
}

void Checkpointing::NoteEvaluation(const EvalReport& report) {
  const std::string name = DecidingMetric(job_.config);
  const std::optional<double> value = ValueOf(report, name);
  if (!value) return;
  early_.Note(*value);
  if (early_.is_due()) plan_.total_steps = report.step;
  tells_early_end_ = early_.is_due();
  if (std::isnan(*value) || job_.config.checkpoint.save_best.empty()) return;
  if (!std::isnan(best_) && (HigherIsBetter(name) ? *value <= best_ : *value >= best_)) return;
  score_ = {.value = *value, .best_before = best_};
  best_ = *value;
}

BoundaryActions Checkpointing::Decide(int64_t step,
                                      const std::optional<Votes>& votes,
                                      bool evaluation_due) {
  begun_.done = begun_.done || (votes && !votes->busy);
  const bool last = early_.is_due() && boundary_.saves() && !has_begun(step);
  BoundaryActions actions = boundary_.Decide(step, votes, found_best() || last, evaluation_due);
  actions.save = actions.save && !place_.folder.empty();
  if (actions.save && requests_ != nullptr) requests_->NoteSave();
  ended_ = actions.stop && votes->end;
  return actions;
}

void Checkpointing::Begin(int64_t step,
                          const VisitState& owners,
                          const Model& model,
                          bool evaluation_due) {
  boundary_.NoteSave(Seconds());
  // If the save of this step was lost, the new save keeps its score.
  begun_ = {.step = step, .score = has_lost(step) && !score_ ? begun_.score : score_};
  std::optional<double> score;
  if (begun_.score) score = best_ = begun_.score->value;
  score_.reset();
  if (saver_ == nullptr) return;
  const InnerPhase saves(StepPhase::kSave);
  StateDict state = SaveState(owners);
  if (job_.config.checkpoint.save_only_model) KeepModelOnly(state);
  std::set<std::string> parameters = ParameterNames(model);
  changed_in_backward_ = ChangedInBackward(state, parameters);
  if (!job_.config.training.stop_on_bad_loss) parameters.clear();
  ++saves_;
  saver_->Begin(std::move(state), {.step = step,
                                   .attempt = place_.attempt,
                                   .run = RunText(job_, plan_, evaluation_due),
                                   .score = score,
                                   .finite = std::move(parameters)});
}

void Checkpointing::NoteRestored(int64_t step) {
  begun_ = {.step = step, .done = true};
  // The best of this run's checkpoints is one of its own.
  if (place_.of_another_run) best_ = std::numeric_limits<double>::quiet_NaN();
  if (early_.is_due()) plan_.total_steps = step;
}

void Checkpointing::BeforeStep(const Step& step) {
  if (saver_ == nullptr) return;
  if (job_.config.strategy.optimizer_in_backward) return BeforeUpdate(step);
  if (changed_in_backward_.empty()) return;
  saver_->WaitForCopyOf(changed_in_backward_);
  changed_in_backward_.clear();
}

void Checkpointing::BeforeUpdate(const Step& /*step*/) {
  if (saver_ != nullptr) saver_->WaitForCopy();
}

void Checkpointing::ReportOutcome(const SaveOutcome& outcome, const Observers* observers) {
  failed_ += outcome.error ? 1 : 0;
  save_seconds_ = outcome.seconds;
  if (observers == nullptr) return;
  CheckpointReport report{.step = outcome.step,
                          .path = outcome.path,
                          .bytes = outcome.bytes,
                          .seconds = outcome.seconds,
                          .stall_seconds = outcome.stall_seconds};
  if (outcome.error) report.error = outcome.error->what;
  observers->Notify(&Observer::OnCheckpoint, report);
  if (outcome.not_deleted) {
    observers->Note("warning: an old checkpoint stays: " + outcome.not_deleted->what);
  }
}

void Checkpointing::Abandon() {
  if (saver_ != nullptr) saver_->Abandon();
}

void Checkpointing::GiveUp(const Observers* observers, int generation, RankPart part) {
  begun_.lost = begun_.step > 0;
  if (begun_.lost && !begun_.done) {
    if (begun_.score) best_ = begun_.score->best_before;  // no checkpoint has the state of the best
    boundary_.NoteLost();
  }
  Abandon();
  if (saver_ != nullptr) {
    while (const auto outcome = saver_->Finish()) ReportOutcome(*outcome, observers);
  }
  if (place_.folder.empty()) return;
  CheckpointPlace place = place_;
  place.attempt =
      place.attempt.substr(0, place.attempt.find('-')) + "-g" + std::to_string(generation);
  SaveTo(place, part);
}

void Checkpointing::Report(const Observers* observers, bool wait) {
  if (std::exchange(tells_early_end_, false) && observers != nullptr) {
    observers->Note("training ends early: " + DecidingMetric(job_.config) +
                    " has not improved in " + CountText(early_.patience(), "evaluation") +
                    " (evaluation.early_stopping_patience)");
  }
  if (saver_ == nullptr) return;
  // The running save may follow a finished one without a report.
  if (const auto outcome = saver_->Poll()) ReportOutcome(*outcome, observers);
  if (!wait) return;
  if (const auto outcome = saver_->Finish()) ReportOutcome(*outcome, observers);
  if (failed_ == 0 || observers == nullptr) return;
  observers->Note("warning: " + std::to_string(failed_) + " of " + std::to_string(saves_) +
                  " checkpoints could not be saved");
}

void Checkpointing::NameUnsaved(StateVisitor& visitor) {
  boundary_.NameUnsaved(visitor);
  visitor.Section("checkpoint.");
  for (std::string* const text : {&place_.run, &place_.folder, &place_.attempt}) {
    VisitText(visitor, "place", *text);
  }
  static_assert(std::is_trivially_copyable_v<decltype(score_)>);
  visitor.Tensor("score", at::from_blob(&score_, {sizeof score_}, at::kByte));
  static_assert(std::is_trivially_copyable_v<BegunSave>);
  visitor.Tensor("begun", at::from_blob(&begun_, {sizeof begun_}, at::kByte));
  visitor.Number("total_steps", plan_.total_steps);
}

void Checkpointing::NameState(StateVisitor& visitor) {
  at::Tensor best = at::tensor({best_}, at::kDouble);
  visitor.Section("run.");
  visitor.Tensor("best", best);
  best_ = best.item<double>();
  early_.NameState(visitor);
}

}  // namespace ddprun::trainer
