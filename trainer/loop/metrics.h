// Metrics of a validation pass, from sums that add up exactly over batches and ranks: a pass over
// any number of ranks gives the values of one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <ddprun/dataset.h>
#include "trainer/config/training_config.h"
#include "trainer/data/dataset.h"
#include "trainer/parallel/rank_tree.h"

namespace ddprun::trainer {

using NamedValues = std::vector<std::pair<std::string, double>>;

// One thread. Definitions are scikit-learn's (1.9): f1 is that of class 1 where there are two
// classes, else as f1_macro the mean over the classes that occur in targets or predictions.
class MetricSums {
 public:
  // `own`: those of the model, which must outlive this; nullptr: none. Without any metrics, that of
  // the task: accuracy for classes, perplexity for tokens.
  explicit MetricSums(std::vector<Metric> metrics, OwnMetrics* own = nullptr);

  // Whether Add has to see what the model gave for this batch; where not, the loss is enough.
  bool NeedsOutputs(const Batch& batch);

  // `loss`: the mean over batch.predictions. `outputs` as from Model::Outputs; undefined unless
  // NeedsOutputs(batch). Throws Failure when a metric does not fit them.
  void Add(double loss, const at::Tensor& outputs, const Batch& batch);
  // What is added from here on is of the next logical rank.
  void NextRank() { parts_.emplace_back(); }

  // A collective: from here on the sums are those of all ranks, whose group for host tensors this
  // is; nullptr: one rank. `ranks`: what was added to, SummedRanks(). Throws Failure.
  void SumOverRanks(c10d::Backend* control, const RankShare& ranks = {});

  int64_t samples() const { return samples_; }
  double loss() const;  // mean over all predictions; NaN where there were none
  NamedValues Values() const;

 private:
  // Sums that depend on the order of adding.
  struct Sums {
    double loss = 0;
    double squared_errors = 0;
    double absolute_errors = 0;
    std::vector<MetricSum> own = {};  // of the model's metrics
  };

  bool CountsClasses() const;
  void AddOwn(const at::Tensor& outputs, const Batch& batch);
  at::Tensor RowsOfParts(c10d::Backend* control) const;
  void AddClasses(const at::Tensor& outputs, const at::Tensor& targets);
  void AddErrors(const at::Tensor& outputs, const at::Tensor& targets);
  double Value(Metric metric) const;
  double MacroF1() const;
  double BinaryF1() const;
  double MatthewsCorrelation() const;

  const bool by_task_;
  std::vector<Metric> metrics_;
  OwnMetrics* const own_;
  std::vector<std::string> own_names_;
  std::vector<Sums> parts_ = {Sums()};  // by logical rank; at the end of all of them together
  int64_t samples_ = 0;
  int64_t predictions_ = 0;
  // Of classes: targets seen, those predicted rightly, and the same by class.
  int64_t targets_ = 0;
  int64_t correct_ = 0;
  std::vector<int64_t> hits_;
  std::vector<int64_t> predicted_;
  std::vector<int64_t> actual_;
  // Of numbers.
  int64_t numbers_ = 0;
};

}  // namespace ddprun::trainer
