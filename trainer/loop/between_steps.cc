// What comes after each step: reports, evaluation, saving, and whether the run stops there.
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/flight_recorder.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/trainer.h"

namespace ddprun::trainer {

void Trainer::AfterStep(const StepResult& result) {
  if (reports_.IsReported(step_)) {
    const int64_t samples = result.sums[0].samples * ranks_.own.size();
    log_.Debug("step done", {{"step", std::to_string(step_)},
                             {"seconds", std::to_string(result.report.step_seconds)},
                             {"samples", std::to_string(samples)}});
  }
  recovery_.votes.reset();
  const bool told = reports_.IsReported(step_) || EvaluateNow() || result.diverged;
  if (told || strategy_->ranks_met()) {
    const bool stop = stop_asked_ && stop_asked_();
    recovery_.votes = reports_.Tell(observers_, OwnVotes(stop),
                                    /*wait=*/told || mesh_.device.is_cpu());
  }
  if (observers_ != nullptr) strategy_->Report(*observers_, step_);
  FinishStep();
}

void Trainer::FinishStep() {
  const bool asked = recovery_.votes && recovery_.votes->stop;
  if (asked) {
    recovery_.leaving = true;
    SetRecovers(false);
  }
  bool due = false;
  if (EvaluateNow()) {
    // The state is saved first where the run is to stop, unless it may turn out to be the best.
    due = asked && job_.config.checkpoint.save_best.empty();
    if (!due && !EvaluateModel()) {
      due = true;
      if (recovery_.votes) recovery_.votes->stop = true;
    }
  }
  checkpoints_.Tell(observers_);
  const BoundaryActions actions = checkpoints_.Decide(step_, recovery_.votes, due);
  // What a device still has of the steps that are kept.
  if ((actions.save || actions.stop) && !mesh_.device.is_cpu()) reports_.Tell(observers_);
  if (actions.save) Save(due);
  stopped_ = actions.stop;
  watch_.SetNext(recovery_.votes && recovery_.votes->watch);
}

// For the save under way, which may take longer than a rank may be without progress.
void Trainer::WaitForSave() {
  for (; checkpoints_.saving(); std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    NoteProgress();
    // Other ranks may never come; this one is better ended by itself than killed.
    if (watch_.TimeIsOver()) checkpoints_.Abandon();
    // The part of a rank that was lost does not come any more.
    if (recovery_.group == nullptr) continue;
    if (!recorder_->LostWorkersSince(recovery_.group->generation()).empty()) checkpoints_.Abandon();
  }
}

void Trainer::Save(bool evaluation_due) {
  WaitForSave();
  // Rank 0's buffers count; where ranks train on their own, each keeps its own.
  if (recovery_.group == nullptr && strategy_->averages_gradients()) strategy_->BeforeEvaluation();
  saved_step_ = step_;
  if (observers_ != nullptr) observers_->Notify(&Observer::OnSave, step_);
  checkpoints_.Begin(
      step_, [this](StateVisitor& visitor) { NameState(visitor); }, *model_, evaluation_due);
}

bool Trainer::EvaluateNow() const {
  if (job_.validation == nullptr) return false;
  return step_ == plan_.total_steps || IsDue(job_.config.evaluation.eval_steps, step_, plan_);
}

// False: it was given up, because the run is to stop.
bool Trainer::EvaluateModel() {
  if (!recovery_.joined || recovery_.proven) SetPhase(WorkerPhase::kEvaluating);
  log_.Debug("validation begins", {{"steps_done", std::to_string(step_)}});
  if (recovery_.group == nullptr) strategy_->BeforeEvaluation();
  recovery_.evaluating = true;
  const bool best = !job_.config.checkpoint.save_best.empty();
  const auto stops = [&](double rest) {
    return best ? watch_.IsTooLate(rest, checkpoints_.save_seconds())
                : stop_asked_ && stop_asked_();
  };
  try {
    WithOthers([&] {
      EvalReport report = Evaluate(
          job_, mesh_, *strategy_, *model_, [this] { BeforeBatch(); }, stops);
      report.step = step_;
      report.epoch = static_cast<double>(step_) / static_cast<double>(plan_.steps_per_epoch);
      recovery_.evaluation = std::move(report);
    });
  } catch (const EvaluationGivenUp&) {
    recovery_.evaluating = false;
    recovery_.leaving = true;
    SetRecovers(false);
    SetPhase(WorkerPhase::kTraining);
    return false;
  } catch (const EvaluationFailed& failed) {
    // What was trained is not lost with it.
    if (saved_step_ != step_) Save(/*evaluation_due=*/true);
    WaitForSave();
    checkpoints_.Tell(observers_, /*wait=*/true);
    if (failed.own != nullptr) std::rethrow_exception(failed.own);
    while (true) WaitForAllRanks();  // the one that failed says why, and all are ended for it
  }
  recovery_.evaluating = false;
  SetPhase(WorkerPhase::kTraining);
  checkpoints_.NoteEvaluation(recovery_.evaluation);
  if (observers_ != nullptr) observers_->Notify(&Observer::OnEval, recovery_.evaluation);
  return true;
}

}  // namespace ddprun::trainer
