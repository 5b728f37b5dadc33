#include "trainer/loop/between_steps.h"

#include <ATen/ops/from_blob.h>

#include <chrono>
#include <exception>
#include <thread>
#include <type_traits>
#include <utility>

#include "trainer/evaluation/evaluate.h"

namespace ddprun::trainer {

bool BetweenSteps::Begin() {
  if (run_.step > 0 && evaluations_.is_running()) return Decide();
  if (!evaluations_.IsOwed(owes_evaluation_)) return false;
  // If this start gives the evaluation up, too, the checkpoint still owes it.
  const bool done = EvaluateModel();
  if (checkpoints_.found_best()) Save();
  return !done;
}

bool BetweenSteps::AfterStep(const StepResult& result) {
  reports_.Add(result, run_.log);
  votes_.reset();
  const bool due = reports_.IsReported(run_.step) || evaluations_.IsDue() || result.diverged;
  if (due || run_.strategy->ranks_met()) {
    votes_ = reports_.Report(run_.observers, OwnVotes(), /*wait=*/due || run_.mesh.device.is_cpu());
  }
  if (run_.observers != nullptr) run_.strategy->Report(*run_.observers, run_.step);
  return Decide();
}

bool BetweenSteps::Decide() {
  const bool asked = votes_ && votes_->stop;
  if (asked) recovery_.StopReplacing();
  bool left_out = false;
  if (evaluations_.IsDue()) {
    // If the run is to stop, saves without the evaluation, unless it may find the best state.
    left_out = asked && run_.job.config.checkpoint.save_best.empty();
    if (!left_out && !EvaluateModel()) {
      left_out = true;
      if (votes_) votes_->stop = true;
    }
  }
  checkpoints_.Report(run_.observers);
  const BoundaryActions actions = checkpoints_.Decide(run_.step, votes_, left_out);
  // Reports the steps whose results are still on a device.
  if ((actions.save || actions.stop) && !run_.mesh.device.is_cpu()) {
    reports_.Report(run_.observers);
  }
  if (actions.save) Save(left_out);
  watch_.SetNext(votes_ && votes_->watch);
  return actions.stop;
}

bool BetweenSteps::GiveUpStep() {
  recovery_.StopReplacing();
  watch_.GiveUp(*run_.model);
  if (!run_.mesh.device.is_cpu()) reports_.Report(run_.observers);
  if (!checkpoints_.has_begun(run_.step)) Save();
  return true;
}

void BetweenSteps::SumBeforeUpdate(const StepResult& result) {
  if (!recovery_.is_on()) return;
  const Votes votes = OwnVotes();
  // No rank would wait for the replacement.
  if (votes.stop) recovery_.StopReplacing();
  // Copies buffers (BatchNorm's) to all ranks, so that a lost rank 0 is not the only owner.
  run_.strategy->BeforeEvaluation();
  reports_.SumBeforeUpdate(result, votes);
  recovery_.Commit();
}

void BetweenSteps::FinishSave() {
  WaitForSave();
  checkpoints_.Report(run_.observers, /*wait=*/true);
}

// Notes progress while it waits, because a save may take longer than a rank may be silent.
void BetweenSteps::WaitForSave() {
  for (; checkpoints_.saving(); std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    run_.NoteProgress();
    // If this rank must end now, it does not wait for other ranks. If a rank is lost, its part of
    // the save never comes.
    if (watch_.TimeIsOver() || recovery_.HasLostRank()) checkpoints_.Abandon();
  }
}

void BetweenSteps::Save(bool evaluation_due) {
  WaitForSave();
  // Rank 0's buffers count. If ranks train on their own, each keeps its own.
  if (!recovery_.is_on() && run_.strategy->averages_gradients()) run_.strategy->BeforeEvaluation();
  if (run_.observers != nullptr) run_.observers->Notify(&Observer::OnSave, run_.step);
  checkpoints_.Begin(run_.step, run_.state, *run_.model, evaluation_due);
}

Votes BetweenSteps::OwnVotes() const {
  Votes votes = checkpoints_.OwnVotes(WantsStop());
  votes.watch = watch_.WantsNext();
  return votes;
}

// Returns false if the evaluation was given up, because the run is to stop.
bool BetweenSteps::EvaluateModel() {
  recovery_.EnterPhase(WorkerPhase::kEvaluating);
  run_.log.Debug("validation begins", {{"steps_done", std::to_string(run_.step)}});
  if (!recovery_.is_on()) run_.strategy->BeforeEvaluation();
  evaluations_.Begin();
  const bool best = !run_.job.config.checkpoint.save_best.empty();
  const auto stops = [&](double rest) {
    return best ? watch_.IsTooLate(rest, checkpoints_.save_seconds()) : WantsStop();
  };
  const auto before_batch = [this] {
    run_.NoteProgress();
    recovery_.CheckRanks();
  };
  EvalReport report;
  try {
    recovery_.Repeat("in the evaluation after step " + std::to_string(run_.step), [&] {
      evaluations_.ShowAverages(true);
      report = Evaluate(run_.job, run_.mesh, *run_.strategy, *run_.model, before_batch, stops);
      evaluations_.ShowAverages(false);
    });
  } catch (const EvaluationGivenUp&) {
    evaluations_.End();
    recovery_.StopReplacing();
    recovery_.EnterPhase(WorkerPhase::kTraining);
    return false;
  } catch (const EvaluationFailed& failed) {
    evaluations_.ShowAverages(false);
    // Saves the steps before the failed evaluation.
    if (run_.step > 0 && !checkpoints_.has_begun(run_.step)) Save(/*evaluation_due=*/true);
    FinishSave();
    if (failed.own != nullptr) std::rethrow_exception(failed.own);
    while (true) run_.WaitForAllRanks();  // the rank that failed says why, and ends all others
  }
  evaluations_.End();
  recovery_.EnterPhase(WorkerPhase::kTraining);
  evaluations_.Note(std::move(report));
  if (run_.step > 0) checkpoints_.NoteEvaluation(evaluations_.last());
  return true;
}

void BetweenSteps::ReportMissed(const WrittenSteps& written, const Observers& observers) const {
  const StepReport& step = reports_.last();
  if (step.reported && step.step > written.train) observers.Notify(&Observer::OnStep, step);
  const EvalReport& evaluation = evaluations_.last();
  if (evaluation.step > written.validation) observers.Notify(&Observer::OnEval, evaluation);
}

void BetweenSteps::NameUnsaved(StateVisitor& visitor) {
  checkpoints_.NameUnsaved(visitor);
  reports_.NameUnsaved(visitor);
  evaluations_.NameUnsaved(visitor);
  visitor.Section("between_steps.");
  static_assert(std::is_trivially_copyable_v<decltype(votes_)>);
  visitor.Tensor("votes", at::from_blob(&votes_, {sizeof votes_}, at::kByte));
}

}  // namespace ddprun::trainer
