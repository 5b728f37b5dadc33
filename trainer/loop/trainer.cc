#include "trainer/loop/trainer.h"

#include <ATen/Functions.h>

#include <chrono>
#include <utility>

#include "base/failure.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/compute/block_cache.h"
#include "trainer/compute/device.h"
#include "trainer/compute/precision.h"
#include "trainer/data/loader.h"
#include "trainer/job/options_of.h"
#include "trainer/job/plan_job.h"
#include "trainer/job/split_model.h"
#include "trainer/loop/step_input.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/peer_state.h"
#include "trainer/parallel/whole_state.h"
#include "trainer/strategies/build_model.h"
#include "trainer/strategies/kinds.h"

namespace ddprun::trainer {

namespace {

using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

}  // namespace

Trainer::Trainer(const Job& job,
                 const StepPlan& plan,
                 const Mesh& mesh,
                 std::shared_ptr<FlightRecorder> recorder,
                 const Log& log)
    : run_{.job = job,
           .plan = plan,
           .mesh = mesh,
           .dims = ValueOrThrow(ResolveDims(job.config, mesh.world.size)),
           .ranks = LogicalRanksOf(job.config, mesh.data.rank, mesh.data.size),
           .recorder = std::move(recorder),
           .log = log,
           .state = [this](StateVisitor& visitor) { NameState(visitor); },
           .plateau = Plateau(PlateauOptionsOf(job.config))},
      checkpoints_(job, run_.plan),
      reports_(job, plan, SummedRanks(job.config, run_.ranks), mesh),
      recovery_(
          run_, checkpoints_, [this](StateVisitor& visitor) { between_.NameUnsaved(visitor); }),
      evaluations_(run_),
      between_(run_, reports_, checkpoints_, watch_, recovery_, evaluations_),
      sampler_(TrainSamplerOptions(job, LogicalRankAt(run_.ranks, 0))),
      schedule_(ScheduleOptionsOf(job.config, plan)),
      mover_(mesh.device),
      window_(mesh.device),
      position_(sampler_.state(0)) {}

Trainer::~Trainer() = default;

void Trainer::Build(bool joins, std::span<const StrategyKind> kinds) {
  run_.log.Debug("building the model");
  UseDevice(run_.mesh.device);
  graph_ = StepGraph::Make(run_.job, run_.mesh, run_.log);
  BuiltStrategy built =
      BuildStrategy({run_.job, run_.dims, run_.mesh, run_.recorder.get(), joins}, kinds);
  run_.model = std::move(built.model);
  run_.strategy = std::move(built.strategy);
  notes_ = std::move(built.notes);
  const TrainingConfig& training = run_.job.config.training;
  if (training.precision == Precision::kFp16) {
    scaler_.emplace(
        LossScaler::Options{training.init_loss_scale, training.loss_scale_growth_interval});
  }
  if (run_.job.config.report.state_hashes) AddPart(hasher_.emplace(*run_.model, run_.mesh));
  // Weights have often moved since they were made: to other ranks, or to memory that ranks share.
  ReleaseTensorMemory();
}

void Trainer::Fit(const Observers* observers) {
  run_.observers = observers;
  run_.model->train();
  recovery_.EnterPhase(WorkerPhase::kTraining);
  run_.log.Debug("training begins", {{"steps", std::to_string(run_.plan.total_steps)}});
  stopped_ = between_.Begin();
  for (int64_t epoch = position_.epoch; run_.step < run_.plan.total_steps && !stopped_; ++epoch) {
    RunEpoch(epoch);
  }
  if (!stopped_) recovery_.Leave();
  // Repeats a lost save of the last step. After an earlier step, a later save was due.
  if (!stopped_ && checkpoints_.has_lost(run_.step)) between_.Save();
  recovery_.EnterPhase(WorkerPhase::kFinishing);
  between_.FinishSave();
  run_.log.Debug("training has ended");
  if (!stopped_) evaluations_.ShowAverages(true);
  const int parts = run_.mesh.tensor.size * run_.mesh.pipeline.size;
  if (stopped_ || (parts == 1 && run_.strategy->holds_whole_model())) return;
  if (auto whole = GatherModel(run_.job, *run_.strategy, run_.mesh)) run_.model = whole;
}

void Trainer::RunEpoch(int64_t epoch) {
  SteadyClock::time_point begin = SteadyClock::now();
  if (epoch != sampler_.epoch()) sampler_.set_epoch(epoch);
  run_.log.Debug("epoch begins",
                 {{"epoch", std::to_string(epoch)}, {"steps_done", std::to_string(run_.step)}});
  LoaderOptions options = TrainLoaderOptions(run_.job.config, epoch);
  options.taken = sampler_.taken();
  options.ranks = run_.ranks.own.size();
  Loader loader(*run_.job.train, sampler_.Indices(options.ranks), options);
  StepInput input(loader, mover_,
                  run_.job.config.training.gradient_accumulation_steps * run_.ranks.own.size(),
                  PipelineMicroBatches(run_.job, run_.dims));
  while (run_.step < run_.plan.total_steps && !stopped_) {
    const std::vector<Batch> micro_batches = input.Take();
    if (micro_batches.empty()) return;
    if (run_.recorder != nullptr) run_.recorder->SetStep(run_.step + 1);
    window_.BeforeStep();
    StepResult result;
    try {
      recovery_.Repeat("in step " + std::to_string(run_.step + 1),
                       [&] { result = TrainStep(micro_batches); });
    } catch (const StepGivenUp&) {
      stopped_ = between_.GiveUpStep();
      return;
    }
    result.report.step = ++run_.step;
    position_ = sampler_.state(input.taken());
    if (run_.step < run_.plan.total_steps) input.Prefetch();
    if (run_.step == run_.plan.total_steps) run_.strategy->Finish();
    // The first collectives wait for slow starters; later ones only for slow steps.
    if (std::exchange(run_.starting, false)) {
      run_.mesh.SetTimeout(std::chrono::seconds(run_.job.config.comm.train_timeout_seconds));
    }
    result.report.data_seconds = input.seconds();
    result.report.step_seconds = SecondsSince(begin);
    stopped_ = between_.AfterStep(result);
    begin = SteadyClock::now();
  }
}

bool Trainer::Restore(const Checkpoint& checkpoint) {
  try {
    const auto meet = [this](auto& own) { return ExchangeTexts(run_.mesh.control.get(), own); };
    const bool mean = checkpoint.Load(run_.state, meet);
    sampler_.Restore(PositionFor(run_.plan, position_));
    checkpoints_.NoteRestored(run_.step);
    return mean;
  } catch (const Failure& failure) {
    if (failure.error().code != Code::kStateDoesNotFit) throw;
    throw FailureOfAllRanks(failure.error());
  }
}

void Trainer::RestoreFromRankZero(const Checkpoint* checkpoint) {
  if (checkpoint != nullptr) checkpoint->Load(run_.state);
  BroadcastState(*run_.mesh.control, run_.state);
  sampler_.Restore(PositionFor(run_.plan, position_));
  checkpoints_.NoteRestored(run_.step);
}

void Trainer::JoinAsReplacement() {
  recovery_.JoinAsReplacement();
  sampler_.Restore(PositionFor(run_.plan, position_));
}

// Names all state on which later steps and their reports depend.
void Trainer::NameState(StateVisitor& visitor) {
  run_.strategy->NameState(visitor);
  for (StepPart* part : parts_) part->NameState(visitor);
  reports_.NameState(visitor);
  if (scaler_) scaler_->NameState(visitor);
  run_.plateau.NameState(visitor);
  visitor.Section("run.");
  visitor.Number("step", run_.step);
  VisitPosition(visitor, position_);
}

StepResult Trainer::TrainStep(const std::vector<Batch>& micro_batches) {
  const auto own = static_cast<size_t>(run_.ranks.own.size());
  StepResult result{.sums = std::vector<StepSums>(own)};
  // The schedule counts updates, like Hugging Face's Trainer: a skipped step has none.
  const int64_t updates = run_.step - (scaler_ ? scaler_->skipped() : 0);
  result.report.learning_rate = run_.job.config.optimizer.learning_rate *
                                LearningRateFactor(schedule_, updates) * run_.plateau.factor();
  const double total = TotalWeight(micro_batches);
  bool in_part = false;  // a part has its own random numbers
  const Step step{run_.step + 1, *run_.strategy, run_.observers};
  watch_.Begin(run_, micro_batches.size());
  for (StepPart* part : parts_) part->BeforeStep(step);
  if (graph_ && LaunchStep(step, micro_batches.front(), total, result)) return result;
  const auto loss = [&](Model& model, const Batch& batch, size_t index) {
    run_.NoteProgress();
    recovery_.CheckRanks();
    watch_.BeforeMicroBatch(run_.mesh, checkpoints_.save_seconds());
    const size_t rank = index % own;  // the loader takes them in turn
    if (!in_part) {
      for (StepPart* part : parts_) part->BeforeMicroBatch(step, index);
      SeedGenerators(run_.mesh.device, run_.SeedOf(rank, index / own));
    }
    return WeightedLoss(model, batch, total, result.sums[rank]);
  };
  const auto stage = [&](size_t index, int number, c10::Device device, const auto& forward) {
    run_.NoteProgress();
    in_part = true;
    for (StepPart* each : parts_) each->BeforeMicroBatch(step, index);
    SeedGenerators(device, MixSeeds({run_.SeedOf(0, index), static_cast<uint64_t>(number)}));
    const PrecisionScope precision(run_.job.config.training.precision,
                                   scaler_ ? scaler_->scale() : 1);
    return forward();
  };
  const DeviceScalar rate = result.report.learning_rate;
  run_.strategy->ForwardBackward({.step = step.number,
                                  .learning_rate = graph_ ? graph_->RateOf(rate) : rate,
                                  .micro_batches = micro_batches,
                                  .loss = loss,
                                  .part = stage});
  run_.NoteProgress();
  if (scaler_) run_.strategy->ScaleGradients(1 / scaler_->scale());
  for (StepPart* part : parts_) part->AfterGradients(step);
  const double max_norm = run_.job.config.training.max_grad_norm;
  if (max_norm > 0) result.grad_norm = run_.strategy->ClipGradients(max_norm);
  if (max_norm == 0 && scaler_) result.grad_norm = run_.strategy->GradientNorm();
  result.diverged = reports_.HasDiverged(*run_.strategy, result.grad_norm);
  between_.SumBeforeUpdate(result);
  for (StepPart* part : parts_) part->BeforeUpdate(step);
  Update(result);
  for (StepPart* part : parts_) part->AfterUpdate(step);
  // The norm waits for the gradients of all buckets. All ranks compute it: each may have a part.
  if (max_norm == 0 && !scaler_ && reports_.IsReported(step.number)) {
    result.grad_norm = run_.strategy->GradientNorm();
  }
  result.report.exposed_comm_seconds =
      HostWaitsForRanks(run_.mesh) ? run_.strategy->exposed_seconds() : -1;
  result.pipeline_wait_seconds = run_.strategy->pipeline_wait_seconds();
  return result;
}

// Computes the step by one launch of a device's graph. Returns false if it is to be queued instead.
bool Trainer::LaunchStep(const Step& step, const Batch& batch, double total, StepResult& result) {
  if (!graph_->Takes(batch, total, step.number)) return false;
  run_.NoteProgress();
  // Nothing reaches into a recorded step, so parts and the host's seeds come before all of it.
  for (StepPart* part : parts_) part->BeforeUpdate(step);
  SeedGenerators(run_.mesh.device, run_.SeedOf(0, /*micro_batch=*/0));
  const double max_norm = run_.job.config.training.max_grad_norm;
  const auto loss = [&](Model& model, const Batch& recorded, StepSums& sums) {
    return WeightedLoss(model, recorded, total, sums);
  };
  const auto launched =
      graph_->Launch(batch, result.report.learning_rate, StepToRecord(step, max_norm, loss));
  if (!launched) return false;
  result.sums[0] = {launched->loss, batch.samples, batch.LossWeight()};
  if (max_norm > 0 || reports_.IsReported(step.number)) result.grad_norm = launched->grad_norm;
  for (StepPart* part : parts_) part->AfterUpdate(step);
  return true;
}

void Trainer::Update(StepResult& result) {
  if (result.diverged) return;
  if (!scaler_) return run_.strategy->Step();
  result.report.loss_scale = scaler_->scale();
  // Waits for a device, once a step. All ranks decide alike, because the norm covers the gradients
  // of all ranks. It is finite if the gradients are, because it is computed in double.
  if (scaler_->Accepts(static_cast<double>(result.grad_norm), run_.step + 1)) {
    run_.strategy->Step();
  }
  result.report.skipped_steps = scaler_->skipped();
}

double Trainer::TotalWeight(const std::vector<Batch>& micro_batches) {
  double own = 0;
  for (const Batch& batch : micro_batches) own += batch.LossWeight();
  // The sampler gives all ranks equally many samples; a rank on its own has its own mean.
  if (BatchesWeighAlike(run_.job) || !run_.strategy->averages_gradients()) {
    return own * static_cast<double>(run_.ranks.count) / static_cast<double>(run_.ranks.own.size());
  }
  const at::Tensor count = at::tensor({run_.mesh.adds_to_sums() ? own : 0.0}, at::kDouble);
  AllReduceOnHost(run_.mesh.control.get(), count);
  return count.item<double>();
}

// Returns a loss whose gradients, averaged over ranks and summed over micro-batches, are the
// gradients of the mean over all predictions, or of their weighted mean.
at::Tensor Trainer::WeightedLoss(Model& model, const Batch& batch, double total, StepSums& sums) {
  const bool counts = run_.mesh.adds_to_sums();
  if (counts) {
    sums.samples += batch.samples;
    sums.weight += batch.LossWeight();
  }
  const double scale = scaler_ ? scaler_->scale() : 1;
  const PrecisionScope precision(run_.job.config.training.precision, scale);
  // A mean over no predictions is NaN, but the other ranks wait for gradients of this rank.
  if (batch.predictions == 0) return model.Outputs(batch).sum() * 0;
  const double weight = batch.LossWeight();
  const at::Tensor loss = model.Loss(batch);
  if (counts) sums.loss += DeviceScalar(loss) * weight;
  // The strategy divides by the number of ranks.
  const double share = scale * weight * static_cast<double>(run_.ranks.count) / total;
  return share == 1 ? loss : loss * share;
}

}  // namespace ddprun::trainer
