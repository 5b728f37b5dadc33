// The training loop: one object per rank and run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/log.h"
#include "trainer/data/loader.h"
#include "trainer/data/sampler.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/batch_mover.h"
#include "trainer/loop/checkpointing.h"
#include "trainer/loop/job.h"
#include "trainer/loop/state_hasher.h"
#include "trainer/loop/step_reports.h"
#include "trainer/models/model.h"
#include "trainer/optim/loss_scaler.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/parallel/strategy.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Used by one thread. Every method is a collective where there is a process group.
class Trainer {
 public:
  // `job` must outlive the trainer; `plan` is PlanFor(job, world size); `recorder`, which may be
  // nullptr, is told how far it is, `log` in words.
  Trainer(const Job& job,
          const StepPlan& plan,
          const Mesh& mesh,
          std::shared_ptr<FlightRecorder> recorder,
          const Log& log);
  ~Trainer();

  // Makes or reads the weights, and all that belongs to them. `joins`: as of BuildStrategy. Throws
  // Failure.
  void Build(bool joins = false);

  // Goes on where the run was when the checkpoint was saved, and saves to `place`. All ranks alike,
  // before Fit. Throws Failure where it does not fit; FailureOfAllRanks where that is so on all.
  void Restore(const Checkpoint& checkpoint);
  void SaveTo(const CheckpointPlace& place) { checkpoints_.SaveTo(place); }

  // Steps are done again in which a rank is killed and replaced, by a process that calls TakePlace
  // after Build instead of Restore and SaveTo. On all ranks of one node alike, before those, with a
  // recorder and where RecoveryObstacle() has nothing against it. Rank 0 is never replaced.
  void RecoverFromPeers();
  void TakePlace();

  // Asked between steps, on every rank: whether the run is to stop there, to go on later. What one
  // rank answers is done by all, after the same step. Must not throw, nor wait.
  void StopWhen(std::function<bool()> asked) { stop_asked_ = std::move(asked); }

  // Trains to the end of the run, with validation as configured, or until it is to stop.
  // `observers` is nullptr on all ranks but 0. Then rank 0 has the whole model. Throws Failure.
  void Fit(const Observers* observers);

  // Throws Failure when a rank is gone.
  void WaitForAllRanks();

  // REQUIRES, and Fit too: Build was called.
  Model& model() { return *model_; }
  // Parameters that the model folder lacks, drawn afresh; on rank 0.
  const std::vector<std::string>& fresh_parameters() const { return fresh_parameters_; }
  int64_t step() const { return step_; }  // optimizer steps done
  bool stopped() const { return stopped_; }  // before the last step
  const StepPlan& plan() const { return plan_; }
  const Mesh& mesh() const { return mesh_; }

 private:
  void RunEpoch(int64_t epoch);
  std::vector<Batch> TakeMicroBatches(Loader& loader) const;
  void AfterStep(const StepResult& result);
  void Save();
  void WaitForSave();
  void NameState(StateVisitor& visitor);
  StepResult DoStep(const std::vector<Batch>& micro_batches);
  StepResult TrainStep(const std::vector<Batch>& micro_batches);
  void ShareState(bool joins);
  void SetRecovers(bool recovers);
  double TotalPredictions(const std::vector<Batch>& micro_batches);
  // The loss whose gradients, averaged over the ranks and added up over the micro-batches, are
  // those of the mean over all predictions.
  at::Tensor WeightedLoss(Model& model,
                          const Batch& batch,
                          double total_predictions,
                          StepSums& sums);
  // Updates the parameters; with a loss scale, if the gradients are finite.
  void Update(StepResult& result);
  void NoteProgress();
  void SetPhase(WorkerPhase phase);
  void GatherModel();
  void EvaluateModel();
  bool EvaluateNow() const;

  const Job& job_;
  const StepPlan plan_;
  const Mesh mesh_;
  const RankShare ranks_;  // logical ones
  const std::shared_ptr<FlightRecorder> recorder_;
  const Log log_;
  Checkpointing checkpoints_;
  StepReports reports_;
  DistributedSampler sampler_;
  const ScheduleOptions schedule_;
  const BatchMover mover_;
  std::vector<std::string> fresh_parameters_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<LossScaler> scaler_;  // of float16
  HostProcessGroup* group_ = nullptr;  // of mesh_, where lost ranks are replaced
  std::optional<StateHasher> hasher_;
  const Observers* observers_ = nullptr;
  int64_t step_ = 0;
  SamplerState position_;    // after it
  bool first_step_ = true;   // of this start
  bool stopped_ = false;
  std::function<bool()> stop_asked_;
};

}  // namespace ddprun::trainer
