// Metrics that a model brings along, from sums over batches as those of evaluation.metrics are: a
// pass over any number of ranks gives the values of one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "trainer/data/dataset.h"

namespace ddprun::trainer {

// What a batch adds to a metric that is a quotient: {hits, samples}.
struct MetricSum {
  double sum = 0;
  double count = 0;
};

// For validation passes. One thread at a time.
class OwnMetrics {
 public:
  virtual ~OwnMetrics() = default;

  // A name for each metric, always the same; none: the other two are not called. One that
  // evaluation.metrics knows too takes its place.
  virtual std::vector<std::string> MetricNames() const { return {}; }

  // What the batch adds, equally much for every batch; `outputs` as from Outputs. Without
  // gradients, in evaluation mode.
  virtual std::vector<MetricSum> SumMetrics(const at::Tensor& /*outputs*/, const Batch& /*batch*/) {
    return {};
  }

  // A value for each name, from the sums over all batches of all ranks, in which every sample
  // counts once. To be overridden for what is no quotient: there may be more sums than names.
  virtual std::vector<double> MetricValues(const std::vector<MetricSum>& totals) const {
    std::vector<double> values;
    values.reserve(totals.size());
    for (const MetricSum& total : totals) values.push_back(total.sum / total.count);
    return values;
  }
};

}  // namespace ddprun::trainer
