#include "trainer/loop/trainer.h"

#include <ATen/Functions.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "base/failure.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/compute/block_cache.h"
#include "trainer/compute/device.h"
#include "trainer/compute/precision.h"
#include "trainer/data/loader.h"
#include "trainer/loop/build_pipeline.h"
#include "trainer/loop/build_strategy.h"
#include "trainer/loop/options_of.h"
#include "trainer/loop/step_input.h"
#include "trainer/parallel/peer_state.h"
#include "trainer/parallel/whole_state.h"

namespace ddprun::trainer {

namespace {

using SteadyClock = std::chrono::steady_clock;

// Gradients that overflow with this one do so with any: those without a scale are no numbers.
constexpr double kSmallestLossScale = 1.0 / 65536;

FailureOfAllRanks NoLossScaleFits(int64_t step) {
  return FailureOfAllRanks(
      Error{.title = "NO LOSS SCALE FITS",
            .where = "step " + std::to_string(step),
            .what = "Gradients are infinite or NaN in float16 however small the loss scale is; it "
                    "was halved down to 2^-16.",
            .hint = "Take training.precision \"bf16\" or \"fp32\", lower "
                    "optimizer.learning_rate, or look at the\ndata of this step.",
            .page = "no-loss-scale"});
}

// Whether gradients of this norm are to end the run instead of updating anything, on all ranks
// alike. On a device, which would be waited for, and where ranks have gradients of their own,
// reports find out.
bool HasDiverged(const TrainingConfig& training,
                 const Mesh& mesh,
                 const Strategy& strategy,
                 const DeviceScalar& grad_norm) {
  const bool known = mesh.device.is_cpu() && strategy.averages_gradients();
  return known && training.stop_on_bad_loss && training.precision != Precision::kFp16 &&
         !std::isfinite(static_cast<double>(grad_norm));
}

double SecondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

}  // namespace

Trainer::Trainer(const Job& job,
                 const StepPlan& plan,
                 const Mesh& mesh,
                 std::shared_ptr<FlightRecorder> recorder,
                 const Log& log)
    : job_(job),
      plan_(plan),
      mesh_(mesh),
      ranks_(LogicalRanksOf(job.config, mesh.data.rank, mesh.data.size)),
      recorder_(std::move(recorder)),
      log_(log),
      checkpoints_(job, plan),
      reports_(job, plan, SummedRanks(job.config, ranks_), mesh),
      sampler_(TrainSamplerOptions(job, LogicalRankAt(ranks_, 0))),
      schedule_(ScheduleOptionsOf(job.config.scheduler, plan.total_steps)),
      mover_(mesh.device),
      window_(mesh.device),
      position_(sampler_.state(0)) {}

Trainer::~Trainer() = default;

void Trainer::Build(bool joins) {
  log_.Debug("building the model");
  UseDevice(mesh_.device);
  graph_ = StepGraph::Make(job_, mesh_, log_);
  BuiltStrategy built = BuildStrategy(job_, mesh_, recorder_.get(), joins);
  model_ = std::move(built.model);
  strategy_ = std::move(built.strategy);
  fresh_parameters_ = std::move(built.fresh_parameters);
  placement_ = std::move(built.placement);
  const TrainingConfig& training = job_.config.training;
  if (training.precision == Precision::kFp16) {
    scaler_.emplace(
        LossScaler::Options{training.init_loss_scale, training.loss_scale_growth_interval});
  }
  if (job_.config.report.state_hashes) hasher_.emplace(*model_, mesh_);
  // Weights have often moved meanwhile: to other ranks, or to memory that ranks share.
  ReleaseTensorMemory();
}

void Trainer::Fit(const Observers* observers) {
  observers_ = observers;
  model_->train();
  if (!recovery_.joined) SetPhase(WorkerPhase::kTraining);
  log_.Debug("training begins", {{"steps", std::to_string(plan_.total_steps)}});
  if (recovery_.evaluating) {
    FinishStep();
  } else if (evaluation_due_ && job_.validation != nullptr) {
    // An earlier start has left it out. Where this one does, too, the same checkpoint owes it.
    stopped_ = !EvaluateModel();
    if (checkpoints_.found_best()) Save();
  }
  for (int64_t epoch = position_.epoch; step_ < plan_.total_steps && !stopped_; ++epoch) {
    RunEpoch(epoch);
  }
  if (recovery_.group != nullptr && !stopped_) {
    // Whoever is lost before is replaced, and waited for here; nobody is after.
    recovery_.leaving = true;
    WithOthers([this] {
      SetRecovers(false);
      WaitForAllRanks();
    });
    // Any other is followed by one that is due.
    if (step_ > 0 && recovery_.lost_save == step_) Save();
  }
  SetPhase(WorkerPhase::kFinishing);
  WaitForSave();
  checkpoints_.Tell(observers_, /*wait=*/true);
  log_.Debug("training has ended");
  const int parts = mesh_.tensor.size * mesh_.pipeline.size;
  if (stopped_ || (parts == 1 && strategy_->holds_whole_model())) return;
  const std::shared_ptr<Model> whole = GatherModel(job_, *strategy_, mesh_);
  if (whole != nullptr) model_ = whole;
}

void Trainer::SetPhase(WorkerPhase phase) {
  if (recorder_ != nullptr) recorder_->SetPhase(phase);
}

void Trainer::RunEpoch(int64_t epoch) {
  SteadyClock::time_point begin = SteadyClock::now();
  if (epoch != sampler_.epoch()) sampler_.set_epoch(epoch);
  log_.Debug("epoch begins",
             {{"epoch", std::to_string(epoch)}, {"steps_done", std::to_string(step_)}});
  LoaderOptions options = TrainLoaderOptions(job_.config, epoch);
  options.taken = sampler_.taken();
  options.ranks = ranks_.own.size();
  Loader loader(*job_.train, sampler_.Indices(options.ranks), options);
  StepInput input(
      loader, mover_, job_.config.training.gradient_accumulation_steps * ranks_.own.size(),
      PipelineMicroBatches(job_, ValueOrThrow(ResolveDims(job_.config, mesh_.world.size))));
  while (step_ < plan_.total_steps && !stopped_) {
    const std::vector<Batch> micro_batches = input.Take();
    if (micro_batches.empty()) return;
    if (recorder_ != nullptr) recorder_->SetStep(step_ + 1);
    window_.BeforeStep();
    StepResult result;
    try {
      WithOthers([&] { result = TrainStep(micro_batches); });
    } catch (const StepGivenUp&) {
      return GiveUpStep();
    }
    result.report.step = ++step_;
    position_ = sampler_.state(input.taken());
    if (step_ < plan_.total_steps) input.Prefetch();
    if (step_ == plan_.total_steps) strategy_->Finish();
    // The first collectives wait for slow starters; later ones only for slow steps.
    if (std::exchange(first_step_, false)) {
      mesh_.SetTimeout(std::chrono::seconds(job_.config.comm.train_timeout_seconds));
    }
    result.report.data_seconds = input.seconds();
    result.report.step_seconds = SecondsSince(begin);
    reports_.Add(result);
    AfterStep(result);
    begin = SteadyClock::now();
  }
}

void Trainer::Restore(const Checkpoint& checkpoint) {
  try {
    checkpoint.Load(
        [this](StateVisitor& visitor) { NameState(visitor); },
        [this](const std::string& own) { return ExchangeTexts(mesh_.control.get(), own); });
    sampler_.Restore(position_);
    saved_step_ = step_;
  } catch (const Failure& failure) {
    if (failure.error().code != Code::kStateDoesNotFit) throw;
    throw FailureOfAllRanks(failure.error());
  }
}

void Trainer::RestoreFromRankZero(const Checkpoint* checkpoint) {
  const auto owners = [this](StateVisitor& visitor) { NameState(visitor); };
  if (checkpoint != nullptr) checkpoint->Load(owners);
  BroadcastState(*mesh_.control, owners);
  sampler_.Restore(position_);
  saved_step_ = step_;
}

// All that the steps to come, and what is told of them, depend on.
void Trainer::NameState(StateVisitor& visitor) {
  strategy_->NameState(visitor);
  checkpoints_.NameState(visitor);
  reports_.NameState(visitor);
  if (scaler_) scaler_->NameState(visitor);
  visitor.Section("run.");
  visitor.Number("step", step_);
  visitor.Section("sampler.");
  visitor.Number("epoch", position_.epoch);
  visitor.Number("samples", position_.samples);
  visitor.Number("dataset_size", position_.dataset_size);
  visitor.Number("group_size", position_.group_size);
  auto seed = static_cast<int64_t>(position_.seed);
  auto shuffle = static_cast<int64_t>(position_.shuffle);
  visitor.Number("seed", seed);
  visitor.Number("shuffle", shuffle);
  position_.seed = static_cast<uint64_t>(seed);
  position_.shuffle = shuffle != 0;
}

StepResult Trainer::TrainStep(const std::vector<Batch>& micro_batches) {
  const auto own = static_cast<size_t>(ranks_.own.size());
  StepResult result{.sums = std::vector<StepSums>(own)};
  // Counts updates, as that of Hugging Face's Trainer: a step that was skipped has none.
  const int64_t updates = step_ - (scaler_ ? scaler_->skipped() : 0);
  result.report.learning_rate =
      job_.config.optimizer.learning_rate * LearningRateFactor(schedule_, updates);
  const double total = TotalPredictions(micro_batches);
  bool in_part = false;  // which has random numbers of its own
  watch_.Begin(*model_, micro_batches.size(), WatchedParts(micro_batches.size()));
  if (graph_ && LaunchStep(micro_batches.front(), total, result)) return result;
  const auto loss = [&](Model& model, const Batch& batch, size_t index) {
    BeforeBatch();
    watch_.BeforeMicroBatch(mesh_, checkpoints_.save_seconds());
    const size_t rank = index % own;  // the loader takes them in turn
    const LogicalRank logical = LogicalRankAt(ranks_, static_cast<int64_t>(rank));
    const uint64_t seed = MicroBatchSeed(job_.config, logical, step_, index / own);
    if (!in_part) SeedGenerators(mesh_.device, seed);
    return WeightedLoss(model, batch, total, result.sums[rank]);
  };
  const auto part = [&](size_t index, int number, c10::Device device, const auto& forward) {
    NoteProgress();
    in_part = true;
    const uint64_t seed = MicroBatchSeed(job_.config, LogicalRankAt(ranks_, 0), step_, index);
    SeedGenerators(device, MixSeeds({seed, static_cast<uint64_t>(number)}));
    const PrecisionScope precision(job_.config.training.precision, scaler_ ? scaler_->scale() : 1);
    return forward();
  };
  checkpoints_.BeforeBackward();
  strategy_->ForwardBackward({.step = step_ + 1,
                              .learning_rate = result.report.learning_rate,
                              .micro_batches = micro_batches,
                              .loss = loss,
                              .part = part});
  NoteProgress();
  if (scaler_) strategy_->ScaleGradients(1 / scaler_->scale());
  if (hasher_) hasher_->HashGradients(strategy_->Gradients());
  const double max_norm = job_.config.training.max_grad_norm;
  if (max_norm > 0) result.grad_norm = strategy_->ClipGradients(max_norm);
  if (max_norm == 0 && scaler_) result.grad_norm = strategy_->GradientNorm();
  result.diverged = HasDiverged(job_.config.training, mesh_, *strategy_, result.grad_norm);
  if (recovery_.group != nullptr) {
    const bool stop = stop_asked_ && stop_asked_();
    // Nobody would wait for the one that is replaced.
    if (stop) SetRecovers(false);
    recovery_.leaving = recovery_.leaving || stop;
    // So that no rank has alone what is in them (of BatchNorm), not even rank 0.
    strategy_->BeforeEvaluation();
    reports_.SumEarly(result, OwnVotes(stop));
  }
  checkpoints_.BeforeUpdate();
  Update(result);
  if (hasher_) hasher_->HashWeights(step_ + 1, observers_);
  // Afterwards: it needs the gradients of all buckets. On all ranks: each may have a part of them.
  if (max_norm == 0 && !scaler_ && reports_.IsReported(step_ + 1)) {
    result.grad_norm = strategy_->GradientNorm();
  }
  result.report.exposed_comm_seconds = mesh_.tensor.size > 1 ? -1 : strategy_->exposed_seconds();
  result.pipeline_wait_seconds = strategy_->pipeline_wait_seconds();
  return result;
}

void Trainer::Update(StepResult& result) {
  if (result.diverged) return;
  if (!scaler_) return strategy_->Step();
  // Waits for a device, once a step. The norm is over all gradients of all ranks, so that all
  // decide alike; its squares, in double, are finite if the gradients are.
  const bool overflowed = !std::isfinite(static_cast<double>(result.grad_norm));
  if (!overflowed) strategy_->Step();
  result.report.loss_scale = scaler_->scale();
  scaler_->Update(overflowed);
  result.report.skipped_steps = scaler_->skipped();
  if (overflowed && scaler_->scale() < kSmallestLossScale) throw NoLossScaleFits(step_ + 1);
}

void Trainer::NoteProgress() {
  if (recorder_ != nullptr) recorder_->NoteProgress();
}

void Trainer::BeforeBatch() {
  NoteProgress();
  if (recovery_.group != nullptr) recovery_.group->CheckRanks();
}

double Trainer::TotalPredictions(const std::vector<Batch>& micro_batches) {
  double own = 0;
  for (const Batch& batch : micro_batches) own += static_cast<double>(batch.predictions);
  // The sampler gives all ranks equally many samples; a rank on its own has its own mean.
  if (job_.train->equal_predictions() || !strategy_->averages_gradients()) {
    return own * static_cast<double>(ranks_.count) / static_cast<double>(ranks_.own.size());
  }
  const at::Tensor count = at::tensor({mesh_.adds_to_sums() ? own : 0.0}, at::kDouble);
  AllReduceOnHost(mesh_.control.get(), count);
  return count.item<double>();
}

// The loss whose gradients, averaged over the ranks and added up over the micro-batches, are those
// of the mean over all predictions.
at::Tensor Trainer::WeightedLoss(Model& model,
                                 const Batch& batch,
                                 double total_predictions,
                                 StepSums& sums) {
  const bool counts = mesh_.adds_to_sums();
  if (counts) {
    sums.samples += batch.samples;
    sums.predictions += batch.predictions;
  }
  const double scale = scaler_ ? scaler_->scale() : 1;
  const PrecisionScope precision(job_.config.training.precision, scale);
  // A mean over no predictions is no number, but the other ranks count on this one's gradients.
  if (batch.predictions == 0) return model.Outputs(batch).sum() * 0;
  const auto predictions = static_cast<double>(batch.predictions);
  const at::Tensor loss = model.Loss(batch);
  if (counts) sums.loss += DeviceScalar(loss) * predictions;
  // The strategy divides by the number of ranks.
  const double share = scale * predictions * static_cast<double>(ranks_.count) / total_predictions;
  return share == 1 ? loss : loss * share;
}

void Trainer::WaitForAllRanks() {
  AllReduceOnHost(mesh_.control.get(), at::zeros({1}));
}

}  // namespace ddprun::trainer
