#include "trainer/loop/trainer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/failure.h"
#include "trainer/data/loader.h"
#include "trainer/loop/compute_setup.h"
#include "trainer/loop/metrics.h"
#include "trainer/loop/open_data.h"
#include "trainer/loop/options_of.h"
#include "trainer/models/pretrained.h"
#include "trainer/plugin/call_plugin.h"

namespace ddprun::trainer {

namespace {

using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

std::shared_ptr<Model> BuildModel(const Job& job,
                                  const RankInfo& rank,
                                  std::vector<std::string>* fresh_parameters) {
  const Config& config = job.config;
  // Rank 0 draws or reads the weights; the others receive them.
  const bool owns_weights = rank.rank == 0;
  const bool pretrained = !config.model.name_or_path.empty();
  at::manual_seed(static_cast<uint64_t>(config.run.seed));
  ModelOptions options = job.model;
  options.initialize = owns_weights && !pretrained;
  std::shared_ptr<Model> model = MakeModel(options);
  if (owns_weights && pretrained)
    *fresh_parameters = LoadWeights(*model, config.model.name_or_path);
  // From here on random numbers are dropout's: each rank its own.
  at::manual_seed(static_cast<uint64_t>(config.run.seed + rank.rank));
  return model;
}

std::vector<NamedParameter> NamedTensorsOf(const torch::OrderedDict<std::string, at::Tensor>& all) {
  std::vector<NamedParameter> result;
  result.reserve(all.size());
  for (const auto& item : all) result.push_back({item.key(), item.value()});
  return result;
}

std::unique_ptr<Strategy> BuildStrategy(const Config& config,
                                        const Model& model,
                                        const c10::intrusive_ptr<HostProcessGroup>& group,
                                        FlightRecorder* recorder,
                                        const Reducer::Ready& update) {
  std::vector<NamedParameter> parameters = NamedTensorsOf(model.named_parameters());
  if (group == nullptr) return MakeSingle(std::move(parameters));
  DataParallelOptions options = DataParallelOptionsOf(config.strategy);
  if (config.strategy.optimizer_in_backward) options.reducer.update_in_backward = update;
  options.reducer.recorder = recorder;
  return MakeDistributedDataParallel(std::move(parameters), NamedTensorsOf(model.named_buffers()),
                                     group, options);
}

std::unique_ptr<Optimizer> BuildOptimizer(const OptimizerConfig& config, const Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) named.emplace_back(item.key(), item.value());
  }
  return MakeOptimizer(OptimizerOptionsOf(config),
                       GroupByDecay(named, config.no_decay, config.weight_decay));
}

FailureOfAllRanks BadLoss(int64_t step, double loss) {
  return FailureOfAllRanks(
      Error{.code = Code::kFailed,
            .title = "LOSS IS NO NUMBER",
            .where = "step " + std::to_string(step),
            .what = std::string("The loss of this step, over all ranks, is ") +
                    (std::isnan(loss) ? "NaN" : "infinite") + "; a finite number was expected.",
            .hint = "Lower optimizer.learning_rate, lengthen scheduler.warmup_steps, or look at\n"
                    "the data of this step. training.stop_on_bad_loss false goes on all the same.",
            .page = "bad-loss"});
}

void RunBackward(const at::Tensor& loss, int64_t step) {
  try {
    loss.backward();
  } catch (const Failure&) {
    throw;  // of communication, which goes on meanwhile
  } catch (...) {
    throw Failure(Error{
        .code = Code::kFailed,
        .title = "GRADIENTS CANNOT BE COMPUTED",
        .where = "step " + std::to_string(step),
        .what = "While backward() went through the model, this was thrown:\n" + ExceptionText(),
        .hint = "In a model of your own, look for tensors changed in place after they were used, "
                "for targets of another type than the outputs (integers where floating point "
                "numbers belong), and for what its own autograd functions throw.",
        .page = "gradients-cannot-be-computed"});
  }
}

}  // namespace

Trainer::Trainer(const Job& job,
                 const StepPlan& plan,
                 const RankInfo& rank,
                 c10::intrusive_ptr<HostProcessGroup> group,
                 std::shared_ptr<FlightRecorder> recorder)
    : job_(job),
      plan_(plan),
      rank_(rank),
      group_(std::move(group)),
      recorder_(std::move(recorder)),
      sampler_(TrainSamplerOptions(job, rank)),
      schedule_(ScheduleOptionsOf(job.config.scheduler, plan.total_steps)),
      model_(BuildModel(job, rank, &fresh_parameters_)),
      strategy_(BuildStrategy(job.config,
                              *model_,
                              group_,
                              recorder_.get(),
                              [this](auto parameters) { UpdateParameters(parameters); })),
      optimizer_(BuildOptimizer(job.config.optimizer, *model_)) {}

Trainer::~Trainer() = default;

void Trainer::Fit(RunReporter* reporter) {
  reporter_ = reporter;
  model_->train();
  SetPhase(WorkerPhase::kTraining);
  for (int64_t epoch = 0; step_ < plan_.total_steps; ++epoch) RunEpoch(epoch);
  SetPhase(WorkerPhase::kFinishing);
}

void Trainer::SetPhase(WorkerPhase phase) {
  if (recorder_ != nullptr) recorder_->SetPhase(phase);
}

void Trainer::RunEpoch(int64_t epoch) {
  const TrainingConfig& training = job_.config.training;
  sampler_.set_epoch(epoch);
  Loader loader(*job_.train, sampler_.Indices(), TrainLoaderOptions(job_.config, epoch));
  DDPRUN_CHECK(loader.batches() == plan_.batches_per_epoch);
  while (step_ < plan_.total_steps) {
    const SteadyClock::time_point begin = SteadyClock::now();
    // All micro-batches of the step first: the weight of each depends on the samples of all.
    std::vector<Batch> micro_batches;
    const size_t wanted = static_cast<size_t>(training.gradient_accumulation_steps);
    while (micro_batches.size() < wanted) {
      std::optional<Batch> batch = loader.Next();
      if (!batch) break;
      micro_batches.push_back(*std::move(batch));
    }
    if (micro_batches.empty()) return;
    if (recorder_ != nullptr) recorder_->SetStep(step_ + 1);
    const StepResult result = TrainStep(micro_batches);
    ++step_;
    if (step_ == plan_.total_steps) strategy_->Finish();
    // The first collectives wait for slow starters; later ones only for slow steps.
    if (step_ == 1 && group_ != nullptr) {
      group_->setTimeout(std::chrono::seconds(job_.config.comm.train_timeout_seconds));
    }
    Report(result, SecondsSince(begin));
    ReportTuning();
    if (EvaluateNow()) Evaluate();
  }
}

Trainer::StepResult Trainer::TrainStep(const std::vector<Batch>& micro_batches) {
  StepResult result;
  strategy_->BeginStep();
  const double total = TotalPredictions(micro_batches);
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    strategy_->PrepareBackward(i + 1 == micro_batches.size());
    RunBackward(BackwardLoss(micro_batches[i], total, result), step_ + 1);
    if (recorder_ != nullptr) recorder_->NoteProgress();
  }
  result.grad_norm = Update();
  return result;
}

double Trainer::TotalPredictions(const std::vector<Batch>& micro_batches) {
  double own = 0;
  for (const Batch& batch : micro_batches) own += static_cast<double>(batch.predictions);
  if (group_ == nullptr) return own;
  // The sampler gives all ranks equally many samples.
  if (job_.train->equal_predictions()) return own * rank_.world_size;
  at::Tensor count = at::tensor({own}, at::kDouble);
  SumOverRanks(count);
  return count.item<double>();
}

at::Tensor Trainer::BackwardLoss(const Batch& batch, double total_predictions, StepResult& result) {
  result.samples += batch.samples;
  result.predictions += batch.predictions;
  const PrecisionScope precision(PrecisionOf(job_.config.training));
  // A mean over no predictions is no number, but the other ranks count on this one's gradients.
  if (batch.predictions == 0) return model_->Outputs(batch).sum() * 0;
  const auto predictions = static_cast<double>(batch.predictions);
  const at::Tensor loss = model_->Loss(batch);
  result.loss_sum += loss.item<double>() * predictions;
  // The strategy divides by the number of ranks.
  const double ranks = group_ == nullptr ? 1 : rank_.world_size;
  const double share = predictions * ranks / total_predictions;
  return share == 1 ? loss : loss * share;
}

void Trainer::UpdateParameters(std::span<const at::Tensor> parameters) {
  const double factor = LearningRateFactor(schedule_, step_);
  optimizer_->Step(job_.config.optimizer.learning_rate * factor, parameters);
}

double Trainer::Update() {
  const double max_norm = job_.config.training.max_grad_norm;
  double norm = 0;
  if (max_norm > 0) norm = strategy_->ClipGradients(max_norm);
  strategy_->UpdateReady([this](auto parameters) { UpdateParameters(parameters); });
  // Afterwards: it needs the gradients of all buckets.
  if (max_norm == 0 && reporter_ != nullptr && reporter_->Reports(step_ + 1, plan_.total_steps)) {
    norm = strategy_->GradientNorm();
  }
  return norm;
}

void Trainer::SumOverRanks(at::Tensor& values) {
  if (group_ == nullptr) return;
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  std::vector<at::Tensor> tensors = {values};
  group_->allreduce(tensors, options);
}

void Trainer::WaitForAllRanks() {
  at::Tensor nothing = at::zeros({1});
  SumOverRanks(nothing);
}

double Trainer::EpochsDone() const {
  return static_cast<double>(step_) / static_cast<double>(plan_.steps_per_epoch);
}

void Trainer::Report(const StepResult& result, double step_seconds) {
  at::Tensor values = at::tensor({result.loss_sum, static_cast<double>(result.samples),
                                  static_cast<double>(result.predictions)},
                                 at::kDouble);
  SumOverRanks(values);
  const double loss = values[0].item<double>() / values[2].item<double>();
  const int64_t all_samples = std::llround(values[1].item<double>());
  if (reporter_ != nullptr) ReportStep(result, loss, all_samples, step_seconds);
  if (job_.config.training.stop_on_bad_loss && !std::isfinite(loss)) throw BadLoss(step_, loss);
}

void Trainer::ReportStep(const StepResult& result,
                         double loss,
                         int64_t all_samples,
                         double step_seconds) {
  StepReport report;
  report.step = step_;
  report.max_steps = plan_.total_steps;
  report.epoch = EpochsDone();
  report.loss = loss;
  report.learning_rate =
      job_.config.optimizer.learning_rate * LearningRateFactor(schedule_, step_ - 1);
  report.grad_norm = result.grad_norm;
  report.samples = all_samples;
  report.tokens = all_samples * job_.train->tokens_per_sample();
  report.step_seconds = step_seconds;
  report.exposed_comm_seconds = strategy_->exposed_seconds();
  reporter_->OnStep(report, ReportTime::Now());
}

void Trainer::ReportTuning() {
  const BucketTuning* tuning = strategy_->tuning();
  if (tuning == nullptr || reporter_ == nullptr || std::exchange(tuning_reported_, true)) return;
  constexpr double kMiB = 1 << 20;
  BucketSizesReport report{.step = step_, .chosen = tuning->chosen};
  for (const BucketTrial& trial : tuning->trials) {
    report.trials.push_back(
        {.bucket_cap_mb = static_cast<double>(trial.limits.cap_bytes) / kMiB,
         .first_bucket_mb = static_cast<double>(trial.limits.first_bytes) / kMiB,
         .buckets = trial.buckets,
         .seconds = trial.seconds});
  }
  reporter_->OnBucketSizes(report, ReportTime::Now());
}

bool Trainer::EvaluateNow() const {
  if (job_.validation == nullptr) return false;
  const int64_t every = job_.config.evaluation.eval_steps;
  return step_ == plan_.total_steps || (every > 0 && step_ % every == 0);
}

void Trainer::Evaluate() {
  const SteadyClock::time_point begin = SteadyClock::now();
  const at::NoGradGuard no_grad;
  SetPhase(WorkerPhase::kEvaluating);
  strategy_->BeforeEvaluation();
  model_->eval();
  const DistributedSampler sampler({.dataset_size = job_.validation->size(),
                                    .num_replicas = rank_.world_size,
                                    .rank = rank_.rank,
                                    .shuffle = false});
  // Without padding: a sample counted twice would falsify the mean. Ranks may differ by a batch;
  // they meet only in the sum at the end.
  Loader loader(*job_.validation, sampler.IndicesWithoutPadding(),
                ValidationLoaderOptions(job_.config));
  MetricSums sums(MetricsOf(job_.config.evaluation), model_->own_metrics());
  while (const std::optional<Batch> batch = loader.Next()) {
    const PrecisionScope precision(PrecisionOf(job_.config.training));
    at::Tensor outputs;
    if (sums.NeedsOutputs(*batch)) outputs = model_->Outputs(*batch);
    const at::Tensor loss =
        outputs.defined() ? model_->LossFrom(outputs, *batch) : model_->Loss(*batch);
    sums.Add(loss.item<double>(), outputs, *batch);
    if (recorder_ != nullptr) recorder_->NoteProgress();
  }
  model_->train();
  if (group_ != nullptr) sums.SumOverRanks(*group_);
  SetPhase(WorkerPhase::kTraining);
  if (reporter_ == nullptr) return;
  EvalReport report;
  report.step = step_;
  report.epoch = EpochsDone();
  report.loss = sums.loss();
  report.samples = sums.samples();
  report.seconds = SecondsSince(begin);
  report.metrics = sums.Values();
  reporter_->OnEval(report, ReportTime::Now());
}

}  // namespace ddprun::trainer
