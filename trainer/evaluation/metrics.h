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
#include "trainer/evaluation/class_counts.h"
#include "trainer/evaluation/roc_auc.h"
#include "trainer/parallel/rank_tree.h"

namespace ddprun::trainer {

using NamedValues = std::vector<std::pair<std::string, double>>;

// One thread. Definitions are scikit-learn's (1.9). For classes see ClassCounts. r2 is the mean
// over the numbers of a target.
class MetricSums {
 public:
  // `own` are metrics of the model, which must outlive this; nullptr means none. Without any
  // metrics, the task decides: accuracy for classes, perplexity for tokens. Metrics of numbers are
  // those of the numbers times `unit`.
  explicit MetricSums(std::vector<Metric> metrics, OwnMetrics* own = nullptr, double unit = 1);

  // Returns whether Add() needs the model's outputs for this batch. If not, the loss is enough.
  bool NeedsOutputs(const Batch& batch);

  // `loss` is the mean over batch.predictions. `outputs` are those of Model::Outputs(), or
  // undefined unless NeedsOutputs(batch). Throws Failure if a metric does not fit the outputs.
  void Add(double loss, const at::Tensor& outputs, const Batch& batch);
  // From now on Add() adds to the next logical rank.
  void NextRank() { parts_.emplace_back(); }

  // A collective. Sums over all ranks. `control` is their group for host tensors; nullptr means one
  // rank. `ranks` is SummedRanks(). Throws Failure.
  void SumOverRanks(c10d::Backend* control, const RankShare& ranks = {});

  int64_t samples() const { return samples_; }
  double loss() const;  // mean over all predictions, weighted as they are; NaN without any
  NamedValues Values() const;
  // Returns ClassCounts::Confusion() if it is one of the metrics, else an empty one.
  ConfusionMatrix Confusion(std::vector<std::string> labels) const;

 private:
  // Sums over targets y and outputs x.
  struct NumberSums {
    double targets = 0;
    double squared_targets = 0;
    double squared_errors = 0;  // (x - y)^2
  };
  // Sums that depend on the order of adding.
  struct Sums {
    double loss = 0;    // times the weight of each batch
    double weight = 0;  // of all batches
    double squared_errors = 0;
    double absolute_errors = 0;
    std::vector<NumberSums> numbers = {};  // by number of a target; for r2
    std::vector<MetricSum> own = {};       // of the model's metrics
  };

  bool Asks(Metric metric) const;
  void AgreeOnTask(c10d::Backend* control);
  void AddOwn(const at::Tensor& outputs, const Batch& batch);
  at::Tensor RowsOfParts(size_t numbers, size_t own) const;
  template <typename List>
  size_t WidestOfRanks(c10d::Backend* control, bool used, List Sums::*list) const;
  void AddClasses(const at::Tensor& outputs, const at::Tensor& targets);
  void AddErrors(const at::Tensor& outputs, const at::Tensor& targets);
  double Value(Metric metric) const;
  double R2() const;

  const bool by_task_;
  OwnMetrics* const own_;
  const double unit_;
  const std::vector<std::string> own_names_;
  std::vector<Metric> metrics_;         // without those of own_
  std::vector<Sums> parts_ = {Sums()};  // by logical rank; after SumOverRanks() one of all ranks
  int64_t samples_ = 0;
  ClassCounts classes_;
  int64_t numbers_ = 0;  // targets that are numbers
  RocAuc roc_auc_;
};

}  // namespace ddprun::trainer
