// How a run goes on when ranks were killed and other processes have taken their places.
//
// Ranks wait for each other in the same operations, and whoever is lost has come to all before its
// first missing one: so all others end in the same one, too (NodeMeeting), or give the step up
// before it, where it cannot end without them. The last operation of a step comes before its update
// (StepReports::SumEarly). So either no rank has updated anything and all do the step again, or all
// finish it, and it is the next part that is done again: a step, an evaluation, or the meeting at
// the end. All ranks then go through every generation of the group until one in which nobody is
// lost.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "base/failure.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/compute/matmul.h"
#include "trainer/loop/resume.h"
#include "trainer/loop/trainer.h"
#include "trainer/parallel/peer_state.h"

namespace ddprun::trainer {

namespace {

void VisitReport(StateVisitor& visitor, EvalReport& report) {
  const auto visit = [&](const std::string& name, double& number) {
    visitor.Tensor(name, at::from_blob(&number, {1}, at::kDouble));
  };
  visitor.Section("evaluation.");
  auto metrics = static_cast<int64_t>(report.metrics.size());
  visitor.Number("step", report.step);
  visitor.Number("samples", report.samples);
  visitor.Number("metrics", metrics);
  visit("epoch", report.epoch);
  visit("loss", report.loss);
  visit("seconds", report.seconds);
  report.metrics.resize(static_cast<size_t>(metrics));
  for (auto& [name, value] : report.metrics) {
    VisitText(visitor, "name", name);
    visit("value", value);
  }
}

// Since the last of those was lost that are not in this generation.
std::string SecondsSinceLoss(const FlightRecorder& recorder, int generation) {
  std::chrono::steady_clock::time_point last = {};
  for (const LostWorker& lost : recorder.LostWorkersSince(generation - 1))
    last = std::max(last, lost.time);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - last;
  return std::to_string(time.count());
}

bool LostAnother(const Failure& failure) {
  return failure.error().code == Code::kRankLost;
}

}  // namespace

void Trainer::RecoverFromPeers() {
  // One group for everything, and what comes in place of another rank begins on the CPU.
  if (mesh_.data.group != mesh_.control || !mesh_.device.is_cpu()) return;
  recovery_.group = dynamic_cast<HostProcessGroup*>(mesh_.control.get());
}

void Trainer::SetRecovers(bool recovers) {
  if (recovery_.group == nullptr) return;
  recorder_->SetRecoveryGeneration(recovers ? std::optional(recovery_.group->generation())
                                            : std::nullopt);
}

void Trainer::WithOthers(const std::function<void()>& part) {
  if (recovery_.group == nullptr) return part();
  // Not before a part of this start is done: what kills a rank twice would do so for ever.
  if (recovery_.proven && !recovery_.leaving) SetRecovers(true);
  const std::vector<at::Tensor> buffers = model_->buffers();
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : buffers) before.push_back(buffer.clone());
  for (bool again = false;; again = true) {
    try {
      if (again) Join();
      part();
      return Settle();
    } catch (const Failure& failure) {
      if (!LostAnother(failure)) throw;
    }
    NextGeneration();  // nothing runs any more that writes to the buffers
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(before[i]);
  }
}

void Trainer::TakePlace() {
  recovery_.joined = true;
  recovery_.has_state = false;
  for (bool again = false;; again = true) {
    try {
      if (again) NextGeneration();
      Join();
      break;
    } catch (const Failure& failure) {
      if (!LostAnother(failure)) throw;
    }
  }
  sampler_.Restore(position_);
}

void Trainer::NextGeneration() {
  log_.Debug("a rank was lost",
             {{"steps_done", std::to_string(step_)},
              {"seconds_ago", SecondsSinceLoss(*recorder_, recovery_.group->generation() + 1)}});
  recovery_.group->Renew();
  first_step_ = true;
  mesh_.SetTimeout(std::chrono::seconds(job_.config.comm.init_timeout_seconds));
}

// A collective.
void Trainer::Join() {
  const int64_t own = mesh_.world.rank;
  // After it nobody uses anything any more of what went on when the rank was lost.
  const at::Tensor lacking = at::zeros({mesh_.world.size}, at::kLong);
  auto* const lacks = lacking.mutable_data_ptr<int64_t>();
  lacks[own] = recovery_.has_state ? 0 : 1;
  AllReduceOnHost(mesh_.control.get(), lacking);
  int giver = 0;
  while (giver < mesh_.world.size && lacks[giver] != 0) ++giver;
  if (giver == mesh_.world.size) {
    throw Failure(Error{.title = "NO RANK IS LEFT",
                        .where = "rank " + std::to_string(own),
                        .what = "All ranks were killed that had the state of the run.",
                        .hint = "It goes on from its newest checkpoint, if restarts are left "
                                "(--max_restarts).",
                        .page = "no-rank-left"});
  }
  const auto since = [this] { return SecondsSinceLoss(*recorder_, recovery_.group->generation()); };
  log_.Debug("meeting the others in a new generation", {{"after_seconds", since()}});
  strategy_->Rejoin(giver);
  CopyState(*recovery_.group, giver, !recovery_.has_state, [this](StateVisitor& visitor) {
    NameState(visitor);
    NameUnsaved(visitor);
  });
  log_.Debug("state shared", {{"from", std::to_string(giver)}, {"after_seconds", since()}});
  recovery_.has_state = true;
  if (saved_step_ == step_) recovery_.lost_save = step_;
  saved_step_ = 0;
  checkpoints_.GiveUp(observers_, recovery_.group->generation(),
                      {.rank = mesh_.world.rank, .size = mesh_.world.size});
  if (lacks[0] == 0) return;
  // What the rank 0 before has begun to save nobody finishes; the others have left it by now.
  WaitForAllRanks();
  if (own != 0) return;
  const Status removed = RemoveUnfinished(checkpoints_.place().folder, plan_.total_steps);
  if (!removed.ok()) log_.Warning("a part of a checkpoint stays: " + removed.error().what);
}

// What ranks have in common within a step, besides the state that is saved between two.
void Trainer::NameUnsaved(StateVisitor& visitor) {
  checkpoints_.NameUndone(visitor);
  reports_.NameUntold(visitor);
  VisitReport(visitor, recovery_.evaluation);
  visitor.Section("loop.");
  auto engine = static_cast<int64_t>(CurrentMatmulEngine());
  auto evaluating = static_cast<int64_t>(recovery_.evaluating);
  visitor.Number("engine", engine);
  visitor.Number("evaluating", evaluating);
  static_assert(std::is_trivially_copyable_v<decltype(recovery_.votes)>);
  visitor.Tensor("votes", at::from_blob(&recovery_.votes, {sizeof recovery_.votes}, at::kByte));
  visitor.Number("settled", recovery_.settled);
  visitor.Number("saved_step", saved_step_);
  visitor.Number("lost_save", recovery_.lost_save);
  UseMatmulEngine(static_cast<MatmulEngine>(engine));
  recovery_.evaluating = evaluating != 0;
}

// All ranks have done a part together.
void Trainer::Settle() {
  if (!std::exchange(recovery_.proven, true) && recovery_.joined) {
    SetPhase(recovery_.evaluating ? WorkerPhase::kEvaluating : WorkerPhase::kTraining);
  }
  const int generation = recovery_.group->generation();
  if (generation == recovery_.settled) return;
  recovery_.group->FreeOldGenerations();
  for (const LostWorker& worker :
       recorder_->LostWorkersSince(static_cast<int>(recovery_.settled))) {
    if (observers_ == nullptr || recorder_->IsLost(worker.local_rank, generation)) continue;
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - worker.time;
    const bool in_step = !recovery_.evaluating && step_ < plan_.total_steps;
    std::array<char, 128> text;
    std::snprintf(text.data(), text.size(), "rank %d was lost: recovered in %.2f s, %s step %lld",
                  worker.local_rank, time.count(),
                  in_step                ? "in"
                  : recovery_.evaluating ? "in the evaluation after"
                                         : "after",
                  static_cast<long long>(step_ + (in_step ? 1 : 0)));
    observers_->Note(text.data());
  }
  recovery_.settled = generation;
}

void Trainer::TellMissed(const WrittenSteps& told, const Observers& observers) const {
  const StepReport& step = reports_.last();
  if (step.reported && step.step > told.train) observers.Notify(&Observer::OnStep, step);
  const EvalReport& evaluation = recovery_.evaluation;
  if (evaluation.step > told.validation) observers.Notify(&Observer::OnEval, evaluation);
}

}  // namespace ddprun::trainer
