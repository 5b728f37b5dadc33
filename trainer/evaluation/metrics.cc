#include "trainer/evaluation/metrics.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <sstream>

#include "base/failure.h"
#include "trainer/config/slot.h"
#include "trainer/models/loss.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/virtual_ranks.h"

namespace ddprun::trainer {

namespace {

// Metrics that are computed from counts by class.
constexpr bool OfCounts(Metric metric) {
  return metric == Metric::kPrecision || metric == Metric::kRecall || metric == Metric::kF1 ||
         metric == Metric::kF1Macro || metric == Metric::kMcc || metric == Metric::kConfusionMatrix;
}

constexpr bool OfClasses(Metric metric) {
  return metric == Metric::kAccuracy || metric == Metric::kRocAuc || OfCounts(metric);
}

constexpr bool OfNumbers(Metric metric) {
  return metric == Metric::kMse || metric == Metric::kRmse || metric == Metric::kMae ||
         metric == Metric::kR2;
}

// Returns the metrics that have none of these names.
std::vector<Metric> Without(const std::vector<std::string>& names, std::vector<Metric> metrics) {
  std::erase_if(metrics, [&names](Metric metric) {
    return std::ranges::find(names, Word(metric)) != names.end();
  });
  return metrics;
}

bool Has(std::span<const Metric> metrics, bool (*kind)(Metric)) {
  return std::any_of(metrics.begin(), metrics.end(), kind);
}

Failure DoesNotFit(const at::Tensor& outputs, const at::Tensor& targets, const char* wanted) {
  std::ostringstream text;
  text << "evaluation.metrics asks for a metric of " << wanted << ", but the model gives "
       << outputs.scalar_type() << " " << outputs.sizes() << " for targets "
       << targets.scalar_type() << " " << targets.sizes() << ".";
  return Failure(Error{.code = Code::kUsage,
                       .title = "METRIC DOES NOT FIT",
                       .what = text.str(),
                       .hint = "accuracy, precision, recall, f1, f1_macro, mcc, roc_auc and "
                               "confusion_matrix are for classes, mse, rmse, mae and r2 for "
                               "numbers, perplexity for both tokens and classes.",
                       .page = "metric-does-not-fit"});
}

bool AreScores(const at::Tensor& outputs, const at::Tensor& targets) {
  return targets.scalar_type() == at::kLong && outputs.dim() == targets.dim() + 1;
}

// Returns the largest number of all ranks: a rank without a batch does not know how many there are.
int64_t LargestOfRanks(c10d::Backend* control, int64_t own) {
  const at::Tensor largest = at::tensor({own}, at::kLong);
  AllReduceOnHost(control, largest, c10d::ReduceOp::MAX);
  return largest.item<int64_t>();
}

constexpr size_t kFirstSums = 4;  // of a row of RowsOfParts(), before its lists

}  // namespace

MetricSums::MetricSums(std::vector<Metric> metrics, OwnMetrics* own, double unit)
    : by_task_(metrics.empty() && own == nullptr),
      own_(own),
      unit_(unit),
      own_names_(own == nullptr ? std::vector<std::string>() : own->MetricNames()),
      metrics_(Without(own_names_, std::move(metrics))),
      classes_({.by_class = Has(metrics_, OfCounts), .pairs = Asks(Metric::kConfusionMatrix)}) {}

ConfusionMatrix MetricSums::Confusion(std::vector<std::string> labels) const {
  return classes_.Confusion(std::move(labels));
}

bool MetricSums::Asks(Metric metric) const {
  return std::ranges::find(metrics_, metric) != metrics_.end();
}

bool MetricSums::NeedsOutputs(const Batch& batch) {
  if (by_task_ && metrics_.empty() && batch.targets.scalar_type() == at::kLong) {
    metrics_ = {batch.targets.dim() == 1 ? Metric::kAccuracy : Metric::kPerplexity};
  }
  return own_ != nullptr || Has(metrics_, OfClasses) || Has(metrics_, OfNumbers);
}

void MetricSums::Add(double loss, const at::Tensor& outputs, const Batch& batch) {
  samples_ += batch.samples;
  const double weight = batch.LossWeight();
  parts_.back().weight += weight;
  if (weight > 0) parts_.back().loss += loss * weight;
  // A metric that only the task suggests must not end a run whose outputs do not fit it.
  const bool guessed_wrong =
      by_task_ && outputs.defined() && !(AreScores(outputs, batch.targets) && outputs.size(-1) > 1);
  if (guessed_wrong) metrics_.clear();
  if (Has(metrics_, OfClasses)) AddClasses(outputs, batch.targets);
  if (Has(metrics_, OfNumbers)) AddErrors(outputs, batch.targets);
  if (own_ != nullptr) AddOwn(outputs, batch);
}

void MetricSums::AddOwn(const at::Tensor& outputs, const Batch& batch) {
  const std::vector<MetricSum> added = own_->SumMetrics(outputs, batch);
  std::vector<MetricSum>& own = parts_.back().own;
  own.resize(added.size());
  for (size_t i = 0; i < added.size(); ++i) {
    own[i].sum += added[i].sum;
    own[i].count += added[i].count;
  }
}

void MetricSums::AddClasses(const at::Tensor& outputs, const at::Tensor& targets) {
  if (!AreScores(outputs, targets)) throw DoesNotFit(outputs, targets, "classes");
  const at::Tensor flat = targets.reshape({-1});
  const at::Tensor counted = flat.ne(kIgnoredTarget);
  const at::Tensor actual = flat.masked_select(counted);
  const at::Tensor predicted = outputs.argmax(-1).reshape({-1}).masked_select(counted);
  if (Asks(Metric::kRocAuc)) {
    roc_auc_.Add(outputs.reshape({-1, outputs.size(-1)}).index({counted}), actual);
  }
  classes_.Add(predicted, actual, outputs.size(-1));
}

void MetricSums::AddErrors(const at::Tensor& outputs, const at::Tensor& targets) {
  if (!targets.is_floating_point() || outputs.numel() != targets.numel()) {
    throw DoesNotFit(outputs, targets, "numbers");
  }
  const at::Tensor errors =
      (outputs.reshape({-1}).to(at::kDouble) - targets.reshape({-1}).to(at::kDouble));
  numbers_ += errors.numel();
  Sums& sums = parts_.back();
  sums.squared_errors += errors.square().sum().item<double>();
  sums.absolute_errors += errors.abs().sum().item<double>();
  if (!Asks(Metric::kR2)) return;
  const at::Tensor rows = targets.to(at::kDouble).reshape({targets.size(0), -1});
  const at::Tensor added =
      at::stack({rows.sum(0), rows.square().sum(0), errors.view_as(rows).square().sum(0)}, 1)
          .cpu()
          .contiguous();
  const auto* from = added.const_data_ptr<double>();
  sums.numbers.resize(static_cast<size_t>(rows.size(1)));
  for (NumberSums& number : sums.numbers) {
    number.targets += *from++;
    number.squared_targets += *from++;
    number.squared_errors += *from++;
  }
}

// Gives all ranks the metric that the task decides: a rank without a batch does not know it, and
// outputs that do not fit take it away from all.
void MetricSums::AgreeOnTask(c10d::Backend* control) {
  constexpr std::array kOfTask = {Metric::kAccuracy, Metric::kPerplexity};
  int64_t own = samples_ > 0 ? std::ssize(kOfTask) + 1 : 0;  // none, or not known
  if (!metrics_.empty()) own = std::ranges::find(kOfTask, metrics_[0]) - kOfTask.begin() + 1;
  const int64_t all = LargestOfRanks(control, own);
  metrics_.clear();
  if (all > 0 && all <= std::ssize(kOfTask)) metrics_ = {kOfTask[static_cast<size_t>(all - 1)]};
}

void MetricSums::SumOverRanks(c10d::Backend* control, const RankShare& ranks) {
  if (by_task_) AgreeOnTask(control);
  if (Asks(Metric::kRocAuc)) roc_auc_.Gather(control);
  // Metrics that the task decides need no counts by class.
  if (classes_.by_class()) classes_.SetClasses(LargestOfRanks(control, classes_.classes()));
  std::vector<int64_t*> own_counts = {&samples_, &numbers_};
  for (int64_t& count : classes_.counts()) own_counts.push_back(&count);
  std::vector<int64_t> counts;
  for (const int64_t* count : own_counts) counts.push_back(*count);
  const at::Tensor all_counts = at::tensor(counts, at::kLong);
  AllReduceOnHost(control, all_counts);
  const int64_t* from = all_counts.const_data_ptr<int64_t>();
  for (int64_t* count : own_counts) *count = *from++;
  const size_t numbers = WidestOfRanks(control, Asks(Metric::kR2), &Sums::numbers);
  const size_t own = WidestOfRanks(control, own_ != nullptr, &Sums::own);
  const at::Tensor sums = trainer::SumOverRanks(RowsOfParts(numbers, own), ranks, control);
  const auto* sum = sums.const_data_ptr<double>();
  Sums all{.loss = sum[0], .weight = sum[1], .squared_errors = sum[2], .absolute_errors = sum[3]};
  sum += kFirstSums;
  for (size_t i = 0; i < numbers; ++i, sum += 3) all.numbers.push_back({sum[0], sum[1], sum[2]});
  for (size_t i = 0; i < own; ++i, sum += 2) all.own.push_back({sum[0], sum[1]});
  parts_ = {std::move(all)};
}

// Returns the largest size of a list in the parts of any rank. `used` is whether the list may have
// members; equal on all ranks.
template <typename List>
size_t MetricSums::WidestOfRanks(c10d::Backend* control, bool used, List Sums::*list) const {
  if (!used) return 0;
  int64_t width = 0;
  for (const Sums& part : parts_) width = std::max(width, std::ssize(part.*list));
  return static_cast<size_t>(LargestOfRanks(control, width));
}

// Returns a row of sums for each logical rank, with room for as many numbers and own sums.
at::Tensor MetricSums::RowsOfParts(size_t numbers, size_t own) const {
  const auto width = static_cast<int64_t>(kFirstSums + 3 * numbers + 2 * own);
  at::Tensor rows = at::zeros({std::ssize(parts_), width}, at::kDouble);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Sums& part = parts_[i];
    std::vector<double> row = {part.loss, part.weight, part.squared_errors, part.absolute_errors};
    for (const NumberSums& number : part.numbers) {
      row.insert(row.end(), {number.targets, number.squared_targets, number.squared_errors});
    }
    row.resize(kFirstSums + 3 * numbers);
    for (const MetricSum& sum : part.own) row.insert(row.end(), {sum.sum, sum.count});
    std::ranges::copy(row, rows[static_cast<int64_t>(i)].mutable_data_ptr<double>());
  }
  return rows;
}

double MetricSums::loss() const {
  if (parts_[0].weight == 0) return std::numeric_limits<double>::quiet_NaN();
  return parts_[0].loss / parts_[0].weight;
}

NamedValues MetricSums::Values() const {
  NamedValues values;
  for (const Metric metric : metrics_) {
    if (metric != Metric::kConfusionMatrix) values.emplace_back(Word(metric), Value(metric));
  }
  if (own_ == nullptr) return values;
  const std::vector<double> own = own_->MetricValues(parts_[0].own);
  for (size_t i = 0; i < own_names_.size(); ++i) values.emplace_back(own_names_[i], own.at(i));
  return values;
}

double MetricSums::Value(Metric metric) const {
  switch (metric) {
    case Metric::kAccuracy:
      return classes_.Accuracy();
    case Metric::kPrecision:
      return classes_.Precision();
    case Metric::kRecall:
      return classes_.Recall();
    case Metric::kF1:
      return classes_.F1(/*macro=*/false);
    case Metric::kF1Macro:
      return classes_.F1(/*macro=*/true);
    case Metric::kMcc:
      return classes_.MatthewsCorrelation();
    case Metric::kRocAuc:
      return roc_auc_.Value();
    case Metric::kPerplexity:
      return std::exp(loss());
    case Metric::kMse:
      return Quotient(parts_[0].squared_errors, static_cast<double>(numbers_)) * unit_ * unit_;
    case Metric::kRmse:
      return std::sqrt(Value(Metric::kMse));
    case Metric::kMae:
      return Quotient(parts_[0].absolute_errors, static_cast<double>(numbers_)) * unit_;
    case Metric::kR2:
      return R2();
    case Metric::kConfusionMatrix:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double MetricSums::R2() const {
  const std::vector<NumberSums>& numbers = parts_[0].numbers;
  if (numbers.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto rows = static_cast<double>(numbers_) / static_cast<double>(numbers.size());
  double sum = 0;
  for (const NumberSums& number : numbers) {
    const double spread = number.squared_targets - number.targets * number.targets / rows;
    const double constant = number.squared_errors == 0 ? 1 : 0;  // targets that are all equal
    sum += spread > 0 ? 1 - number.squared_errors / spread : constant;
  }
  return sum / static_cast<double>(numbers.size());
}

}  // namespace ddprun::trainer
