// A model's own metrics. Like those of evaluation.metrics, they are computed from sums over
// batches, so that any number of ranks gives the values of one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "trainer/data/dataset.h"

namespace ddprun::trainer {

// The part of one batch in a metric that is a quotient: {hits, samples}.
struct MetricSum {
  double sum = 0;
  double count = 0;
};

// For validation passes. One thread at a time.
class OwnMetrics {
 public:
  virtual ~OwnMetrics() = default;

  // Returns a name for each metric, always the same names. If there are none, the other two methods
  // are not called. A name of evaluation.metrics replaces the metric there.
  virtual std::vector<std::string> MetricNames() const { return {}; }

  // Returns the batch's sums, equally many for every batch. `outputs` are those of Outputs().
  // Called without gradients, in evaluation mode.
  virtual std::vector<MetricSum> SumMetrics(const at::Tensor& /*outputs*/, const Batch& /*batch*/) {
    return {};
  }

  // Returns a value for each name, from the sums over all batches of all ranks, in which every
  // sample counts once. Override it for metrics that are no quotients: there may be other sums.
  virtual std::vector<double> MetricValues(const std::vector<MetricSum>& totals) const {
    std::vector<double> values;
    values.reserve(totals.size());
    for (const MetricSum& total : totals) values.push_back(total.sum / total.count);
    return values;
  }
};

}  // namespace ddprun::trainer
