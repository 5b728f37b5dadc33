#include "trainer/evaluation/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ddprun/sampler.h>
#include "base/failure.h"
#include "base/step_phase.h"
#include "trainer/comm/node_meeting.h"
#include "trainer/compute/precision.h"
#include "trainer/data/batch_mover.h"
#include "trainer/data/loader.h"
#include "trainer/evaluation/metrics.h"
#include "trainer/job/options_of.h"
#include "trainer/job/step_plan.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/peer_state.h"

namespace ddprun::trainer {

namespace {

// Meetings of ranks within an evaluation. All meetings are equal operations, so that a failed rank
// can join the next meeting of the other ranks.
class EvaluationMeetings {
 public:
  // `least` and `own` count batches: of the rank with the fewest, and of this rank.
  EvaluationMeetings(c10d::Backend* control,
                     int64_t least,
                     int64_t own,
                     const std::function<bool(double rest)>& stops)
      : control_(control), least_(least), own_(own), stops_(stops) {}

  void BeforeBatch() {
    const int64_t done = done_++;
    if (done != next_ || done >= least_) return;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
    const double of_each = passed.count() / static_cast<double>(done);
    const bool stop = stops_(of_each * static_cast<double>(own_ - done));
    const double slowest = Meet(stop, nullptr, of_each);
    // Equal on all ranks. The distance grows slowly, because the first batches take longer.
    next_ += std::clamp(std::llround(kSeconds / std::max(slowest, 1e-6)), 1LL, 2 * (1LL + done));
  }
  // `failure` is the error of this rank, or nullptr.
  double Meet(bool stop, const std::exception_ptr& failure, double seconds = 0) {
    const at::Tensor votes = at::tensor({stop ? 1.0 : 0, failure ? 1.0 : 0, seconds}, at::kDouble);
    AllReduceOnHost(control_, votes, c10d::ReduceOp::MAX);
    const auto* vote = votes.const_data_ptr<double>();
    if (vote[1] > 0) throw EvaluationFailed{failure};
    if (vote[0] > 0) throw EvaluationGivenUp();
    return vote[2];
  }

 private:
  static constexpr double kSeconds = 1;  // between two meetings

  c10d::Backend* const control_;
  const int64_t least_;
  const int64_t own_;
  const std::function<bool(double rest)>& stops_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  int64_t done_ = 0;
  int64_t next_ = 1;
};

void AddShare(const Dataset& data,
              const Job& job,
              const LogicalRank& rank,
              const BatchMover& mover,
              bool counts,
              Strategy& strategy,
              Model& model,
              const std::function<void()>& before_batch,
              MetricSums& sums) {
  const DistributedSampler sampler({.dataset_size = data.size(),
                                    .num_replicas = rank.count,
                                    .rank = rank.index,
                                    .shuffle = false});
  // There is no padding, because a sample counted twice would falsify the mean. So ranks may differ
  // by a batch: they meet only in the sum at the end, or repeat a batch without counting it.
  const LoaderOptions options = ValidationLoaderOptions(job.config);
  Loader loader(data, sampler.IndicesWithoutPadding(), options);
  Batch batch;
  const auto evaluate = [&](bool counted) {
    before_batch();
    const PrecisionScope precision(job.config.training.precision);
    const BatchEvaluation found = strategy.EvaluateBatch(model, batch, sums.NeedsOutputs(batch));
    if (counted) sums.Add(found.loss.item<double>(), found.outputs, batch);
  };
  int64_t done = 0;
  for (; std::optional<Batch> loaded = loader.Next(); ++done) {
    batch = mover.Move(*std::move(loaded));
    evaluate(counts);
  }
  if (!strategy.evaluates_together()) return;
  // The first rank has the most samples.
  const int64_t most = (data.size() + rank.count - 1) / rank.count;
  if (done == 0) batch = mover.Move(*Loader(data, {0}, options).Next());
  for (; done < CountBatches(most, options); ++done) evaluate(/*counted=*/false);
}

}  // namespace

EvalReport EvaluateOn(const Dataset& data,
                      const Job& job,
                      const Mesh& mesh,
                      Strategy& strategy,
                      Model& model,
                      const std::function<void()>& before_batch,
                      const std::function<bool(double rest)>& stops) {
  const auto begin = std::chrono::steady_clock::now();
  const InnerPhase evaluates(StepPhase::kEvaluate);
  const at::NoGradGuard no_grad;
  model.eval();
  const auto train_again = c10::make_scope_exit([&] { model.train(); });
  const RankShare ranks = LogicalRanksOf(job.config, mesh.data.rank, mesh.data.size);
  MetricSums sums(MetricsOf(job.config.evaluation), model.own_metrics(),
                  data.shape().target_deviation);
  const BatchMover mover(mesh.device);
  const LoaderOptions options = ValidationLoaderOptions(job.config);
  const int64_t least = CountBatches(data.size() / ranks.count, options);
  EvaluationMeetings meetings(
      mesh.control.get(), least * (ranks.count / mesh.data.size),
      CountBatches(data.size() / ranks.count + 1, options) * static_cast<int64_t>(ranks.own.size()),
      stops);
  const auto before = [&] {
    before_batch();
    meetings.BeforeBatch();
  };
  std::exception_ptr failure;
  try {
    for (int64_t i = 0; i < ranks.own.size(); ++i) {
      if (i > 0) sums.NextRank();
      AddShare(data, job, LogicalRankAt(ranks, i), mover, mesh.adds_to_sums(), strategy, model,
               before, sums);
    }
  } catch (const Failure& failed) {
    if (failed.error().code == Code::kRankLost) throw;
    failure = std::current_exception();
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  const bool alone = mesh.tensor.size * mesh.pipeline.size == 1 && !strategy.evaluates_together();
  if (failure && !alone) std::rethrow_exception(failure);
  meetings.Meet(/*stop=*/false, failure);
  sums.SumOverRanks(mesh.control.get(), SummedRanks(job.config, ranks));
  CheckCollectives(mesh);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EvalReport report;
  report.loss = sums.loss();
  report.samples = sums.samples();
  report.seconds = seconds.count();
  report.metrics = sums.Values();
  report.confusion = sums.Confusion(data.shape().labels);
  return report;
}

std::optional<double> ValueOf(const EvalReport& report, const std::string& name) {
  if (name == "loss") return report.loss;
  for (const auto& [metric, value] : report.metrics) {
    if (metric == name) return value;
  }
  return std::nullopt;
}

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

}  // namespace ddprun::trainer
