// The trainer's interface to data: the number of samples, any of them as one batch, and metrics of
// batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

// One batch: B samples along dim 0 of every tensor, in the order of the requested indices.
struct Batch {
  at::Tensor inputs;   // numbers [B, ...], images [B, C, H, W], or token ids int64 [B, L]
  at::Tensor targets;  // numbers [B, ...], classes int64 [B], or token ids int64 [B, L]
  // int64 [B, L], 0: padding; tokens of a row's n-th text have n; undefined: one text, no padding.
  at::Tensor attention_mask = {};
  // int64 [B, L], the text of a pair that each token belongs to; undefined: the first text.
  at::Tensor token_type_ids = {};
  // float32 [B], how much each sample counts in the mean loss; undefined: all count alike.
  at::Tensor weights = {};
  double sum_of_weights = 0;  // not used without `weights`
  int64_t samples = 0;        // B
  // Number of predictions in the mean loss: the samples, or the target tokens that count.
  int64_t predictions = 0;
  // For a batch on a device: copies on the host of values that the host needs.
  struct OnHost {
    at::Tensor attention_mask = {};
    std::optional<int64_t> largest_target = {};  // of integer targets
  };
  OnHost on_host = {};

  // Returns the tensors with a row for each sample; some may be undefined.
  std::array<at::Tensor*, 5> Tensors() {
    return {&inputs, &targets, &attention_mask, &token_type_ids, &weights};
  }
  std::array<const at::Tensor*, 5> Tensors() const {
    return {&inputs, &targets, &attention_mask, &token_type_ids, &weights};
  }
  // Returns how much this batch's loss counts in the mean over several batches.
  double LossWeight() const {
    return weights.defined() ? sum_of_weights : static_cast<double>(predictions);
  }
};

// The sizes that a model must have. A field is empty or 0 if it does not apply.
struct DataShape {
  std::vector<int64_t> input = {};       // of one sample's numbers: {features} or {C, H, W}
  std::vector<int64_t> target = {};      // of one sample's target numbers: {1} for one number
  int64_t classes = 0;                   // targets are below this
  std::vector<std::string> labels = {};  // a name for each class, if the data has names
  int64_t vocab_size = 0;                // token ids are below this
  // A number y of the data stands in the targets as (y - target_mean) / target_deviation.
  double target_mean = 0;
  double target_deviation = 1;

  bool operator==(const DataShape&) const = default;
};

// Immutable after construction: any thread may call any method.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  // Returns the samples `indices` as one batch. REQUIRES: every index is in [0, size()), and there
  // is at least one.
  virtual Batch Get(std::span<const int64_t> indices) const = 0;
  // Returns the samples `indices` as one batch for training in an epoch. If the data set was opened
  // for random variation (images), varies each sample by its index and the epoch alone, so that
  // every thread and rank gets the same result. Otherwise equals Get().
  virtual Batch GetVaried(std::span<const int64_t> indices, int64_t /*epoch*/) const {
    return Get(indices);
  }
  virtual DataShape shape() const { return {}; }
  // Returns the class of each sample; empty: there are none, or only Get() can tell.
  virtual std::vector<int64_t> Classes() const { return {}; }
  // Returns the predicted tokens per sample, for tokens/s; 0 means that samples have no tokens.
  virtual int64_t tokens_per_sample() const { return 0; }
  // Returns whether batches with equally many samples have equally many predictions. If not, ranks
  // sum their counts before each step.
  virtual bool equal_predictions() const { return true; }
  // Returns each sample's length in tokens, for batches of similar lengths; empty means that all
  // are equally long. May take as long as reading all samples once.
  virtual std::vector<int64_t> Lengths() const { return {}; }
  // Returns the files from which samples are read during training; empty means memory, or a source
  // that only the data set's code knows.
  virtual std::vector<std::string> Files() const { return {}; }
  // Returns notes for people before training, such as how many rows were left out; a line each.
  virtual std::vector<std::string> Notes() const { return {}; }
  // Returns files, text by name, that describe inputs and outputs to users of the trained model.
  virtual std::map<std::string, std::string> ModelFiles() const { return {}; }
  // Returns whether making a batch costs less than passing it to a thread. Loader then starts none.
  virtual bool in_memory() const { return false; }
};

// The part of one batch in a metric that is a quotient: {hits, samples}.
struct MetricSum {
  double sum = 0;
  double count = 0;
};

// A model's own metrics. Like those of evaluation.metrics, they are computed from sums over
// batches, so that any number of ranks gives the values of one process.
//
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

}  // namespace ddprun
