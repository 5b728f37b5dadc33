#include "trainer/loop/step_reports.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <cmath>
#include <type_traits>
#include <utility>

#include "trainer/compute/device.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

namespace {

FailureOfAllRanks BadLoss(int64_t step, double loss) {
  return FailureOfAllRanks(
      Error{.title = "LOSS IS NO NUMBER",
            .where = "step " + std::to_string(step),
            .what = std::string("The loss of this step, over all ranks, is ") +
                    (std::isnan(loss) ? "NaN" : "infinite") + "; a finite number was expected.",
            .hint = "Lower optimizer.learning_rate, lengthen scheduler.warmup_steps, or look at\n"
                    "the data of this step. training.stop_on_bad_loss false goes on all the same.",
            .page = "bad-loss"});
}

FailureOfAllRanks BadGradients(int64_t step) {
  return FailureOfAllRanks(
      Error{.title = "GRADIENT IS NO NUMBER",
            .where = "step " + std::to_string(step),
            .what = "The gradients of this step have a number that is NaN or infinite, though the "
                    "loss is finite.",
            .hint = "Lower optimizer.learning_rate, scale the inputs and targets down, or look at "
                    "the data of\nthis step; strategy.check_finite names the parameter. "
                    "training.stop_on_bad_loss false goes on\nall the same.",
            .page = "bad-loss"});
}

// Copies all results from a device at once. The host has measured only how long it took to queue
// each step, so every step gets the mean of these times with the wait for the copy.
void ReadFromDevice(std::vector<StepResult>& results) {
  std::vector<DeviceScalar*> late;
  std::vector<at::Tensor> numbers;
  double seconds = 0;
  for (StepResult& result : results) {
    seconds += result.report.step_seconds;
    late.push_back(&result.grad_norm);
    for (StepSums& sums : result.sums) late.push_back(&sums.loss);
  }
  std::erase_if(late, [](const auto* number) { return !number->on_device().defined(); });
  if (late.empty()) return;
  for (const DeviceScalar* number : late) numbers.push_back(number->on_device());
  const auto begin = std::chrono::steady_clock::now();
  const at::Tensor read = at::stack(numbers).cpu();
  for (size_t i = 0; i < late.size(); ++i) *late[i] = read.const_data_ptr<double>()[i];
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  seconds /= static_cast<double>(results.size());
  for (StepResult& result : results) result.report.step_seconds = seconds;
}

// Returns sums over all ranks: for each result a row of loss, samples, weight, the wait for
// other stages and whether gradients are not finite, and then a row of votes.
at::Tensor SumsOverRanks(const std::vector<StepResult>& results,
                         const Votes& votes,
                         const RankShare& ranks,
                         c10d::Backend* control) {
  at::Tensor sums =
      at::zeros({ranks.own.size(), static_cast<int64_t>(results.size()) + 1, 5}, at::kDouble);
  auto* row = sums.mutable_data_ptr<double>();
  for (int64_t rank = 0; rank < ranks.own.size(); ++rank) {
    for (const StepResult& result : results) {
      const StepSums& found = result.sums[rank];
      *row++ = found.loss;
      *row++ = static_cast<double>(found.samples);
      *row++ = found.weight;
      *row++ = rank == 0 ? result.pipeline_wait_seconds : 0;
      *row++ = rank == 0 && !std::isfinite(static_cast<double>(result.grad_norm)) ? 1 : 0;
    }
    // The votes of a process count once, for its first logical rank.
    for (const bool vote : {votes.save, votes.busy, votes.stop, votes.watch, votes.end}) {
      *row++ = vote && rank == 0 ? 1 : 0;
    }
  }
  return SumOverRanks(sums, ranks, control);
}

// Returns the highest peak of all ranks. If the device is not the CPU, a collective.
DeviceMemoryPeak PeakOverRanks(c10::Device device, c10d::Backend* control) {
  const DeviceMemoryPeak own = TakeMemoryPeak(device);
  if (device.is_cpu()) return own;
  const at::Tensor peaks = at::tensor({own.allocated, own.reserved}, at::kLong);
  AllReduceOnHost(control, peaks, c10d::ReduceOp::MAX);
  const auto* peak = peaks.const_data_ptr<int64_t>();
  return {.allocated = peak[0], .reserved = peak[1]};
}

}  // namespace

bool StepReports::IsReported(int64_t step) const {
  return step == 1 || step == plan_.total_steps || step % job_.config.report.logging_steps == 0;
}

bool StepReports::HasDiverged(const Strategy& strategy, const DeviceScalar& grad_norm) const {
  const TrainingConfig& training = job_.config.training;
  const bool known = mesh_.device.is_cpu() && strategy.averages_gradients();
  return known && training.stop_on_bad_loss && training.precision != Precision::kFp16 &&
         !std::isfinite(static_cast<double>(grad_norm));
}

void StepReports::Add(const StepResult& result, const Log& log) {
  results_.push_back(result);
  if (!IsReported(result.report.step)) return;
  int64_t samples = 0;
  for (const StepSums& one : result.sums) samples += one.samples;
  log.Debug("step done", {{"step", std::to_string(result.report.step)},
                          {"seconds", std::to_string(result.report.step_seconds)},
                          {"samples", std::to_string(samples)}});
}

void StepReports::SumBeforeUpdate(const StepResult& result, const Votes& own) {
  summed_ = SumsOverRanks({result}, own, ranks_, mesh_.control.get());
}

Votes StepReports::Report(const Observers* observers, const Votes& own, bool wait) {
  std::vector<StepResult> results;
  if (wait) results = std::exchange(results_, {});
  ReadFromDevice(results);
  const at::Tensor sums = summed_.defined()
                              ? std::exchange(summed_, {})
                              : SumsOverRanks(results, own, ranks_, mesh_.control.get());
  // After the sum, because that names ranks that do not come.
  if (!results.empty()) CheckCollectives(mesh_);
  const auto* row = sums.const_data_ptr<double>();
  DeviceMemoryPeak peak;
  if (!results.empty() && IsReported(results.back().report.step)) {
    peak = PeakOverRanks(mesh_.device, mesh_.control.get());
  }
  for (const StepResult& result : results) {
    StepReport report = result.report;
    report.max_steps = plan_.total_steps;
    report.epoch = static_cast<double>(report.step) / static_cast<double>(plan_.steps_per_epoch);
    const double loss_sum = *row++;
    report.samples = std::llround(*row++);
    report.weight = *row++;
    const double waited = *row++;
    // A norm that came after SumBeforeUpdate() is not in the sums, but is equal on all ranks.
    const bool bad_gradients = *row++ > 0 || !std::isfinite(static_cast<double>(result.grad_norm));
    report.loss = loss_sum / report.weight;
    if (report.weight > 0) loss_.Add(report.loss);
    report.mean_loss = loss_.mean();
    report.reported = IsReported(report.step);
    if (report.reported) loss_.Reset();
    report.tokens = report.samples * job_.train->tokens_per_sample();
    report.grad_norm = result.grad_norm;
    report.run_seconds = run_seconds_ += report.step_seconds;
    if (report.reported) {
      report.max_memory_allocated = peak.allocated;
      report.max_memory_reserved = peak.reserved;
    }
    if (ResolveDims(job_.config, 0)->in_stages && mesh_.control != nullptr && waited >= 0) {
      report.pipeline_bubble = waited / mesh_.control->getSize() / report.step_seconds;
    }
    last_ = report;
    if (observers != nullptr) observers->Notify(&Observer::OnStep, report);
    // A step without predictions has no loss, but is no error.
    const bool bad_loss = report.weight > 0 && !std::isfinite(report.loss);
    if (!job_.config.training.stop_on_bad_loss) continue;
    if (bad_loss) throw BadLoss(report.step, report.loss);
    // With a loss scale, a step with bad gradients is skipped.
    if (bad_gradients && report.loss_scale == 0) throw BadGradients(report.step);
  }
  return {.save = row[0] > 0,
          .busy = row[1] > 0,
          .stop = row[2] > 0,
          .end = row[4] > 0,
          .watch = row[3] > 0};
}

void StepReports::NameState(StateVisitor& visitor) {
  at::Tensor numbers = at::tensor({loss_.sum(), run_seconds_}, at::kDouble);
  int64_t count = loss_.count();
  visitor.Section("run.");
  visitor.Number("losses", count);
  visitor.Tensor("loss_sum", numbers[0]);
  visitor.Tensor("seconds", numbers[1]);
  loss_.Restore(numbers[0].item<double>(), count);
  run_seconds_ = numbers[1].item<double>();
}

void StepReports::NameUnsaved(StateVisitor& visitor) {
  static_assert(std::is_trivially_copyable_v<StepReport>);
  visitor.Section("report.");
  visitor.Tensor("last", at::from_blob(&last_, {sizeof last_}, at::kByte));
}

}  // namespace ddprun::trainer
