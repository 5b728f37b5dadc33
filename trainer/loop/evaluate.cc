#include "trainer/loop/evaluate.h"

#include <ATen/core/grad_mode.h>

#include <chrono>

#include "trainer/compute/precision.h"
#include "trainer/data/loader.h"
#include "trainer/data/sampler.h"
#include "trainer/loop/batch_mover.h"
#include "trainer/loop/metrics.h"
#include "trainer/loop/options_of.h"

namespace ddprun::trainer {

namespace {

void AddShare(const Job& job,
              const LogicalRank& rank,
              const BatchMover& mover,
              bool counts,
              Strategy& strategy,
              Model& model,
              const std::function<void()>& before_batch,
              MetricSums& sums) {
  const DistributedSampler sampler({.dataset_size = job.validation->size(),
                                    .num_replicas = rank.count,
                                    .rank = rank.index,
                                    .shuffle = false});
  // Without padding: a sample counted twice would falsify the mean. Ranks may differ by a batch;
  // they meet only in the sum at the end, or repeat one that they do not count.
  const LoaderOptions options = ValidationLoaderOptions(job.config);
  Loader loader(*job.validation, sampler.IndicesWithoutPadding(), options);
  Batch batch;
  const auto evaluate = [&](bool counted) {
    before_batch();
    const PrecisionScope precision(job.config.training.precision);
    const Evaluated found = strategy.EvaluateBatch(model, batch, sums.NeedsOutputs(batch));
    if (counted) sums.Add(found.loss.item<double>(), found.outputs, batch);
  };
  int64_t done = 0;
  for (; std::optional<Batch> loaded = loader.Next(); ++done) {
    batch = mover.Move(*std::move(loaded));
    evaluate(counts);
  }
  if (!strategy.evaluates_together()) return;
  // The first rank has the most.
  const int64_t most = (job.validation->size() + rank.count - 1) / rank.count;
  if (done == 0) batch = mover.Move(*Loader(*job.validation, {0}, options).Next());
  for (; done < CountBatches(most, options); ++done) evaluate(/*counted=*/false);
}

}  // namespace

EvalReport Evaluate(const Job& job,
                    const Mesh& mesh,
                    Strategy& strategy,
                    Model& model,
                    const std::function<void()>& before_batch) {
  const auto begin = std::chrono::steady_clock::now();
  const at::NoGradGuard no_grad;
  model.eval();
  const RankShare ranks = LogicalRanksOf(job.config, mesh.data.rank, mesh.data.size);
  MetricSums sums(MetricsOf(job.config.evaluation), model.own_metrics());
  const BatchMover mover(mesh.device);
  for (int64_t i = 0; i < ranks.own.size(); ++i) {
    if (i > 0) sums.NextRank();
    AddShare(job, LogicalRankAt(ranks, i), mover, mesh.counts(), strategy, model, before_batch,
             sums);
  }
  model.train();
  sums.SumOverRanks(mesh.control.get(), SummedRanks(job.config, ranks));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EvalReport report;
  report.loss = sums.loss();
  report.samples = sums.samples();
  report.seconds = seconds.count();
  report.metrics = sums.Values();
  return report;
}

}  // namespace ddprun::trainer
