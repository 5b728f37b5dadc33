#include "trainer/evaluation/roc_auc.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "trainer/parallel/whole_state.h"

namespace ddprun::trainer {

namespace {

template <typename T>
void Append(const at::Tensor& values, std::vector<T>& to) {
  const at::Tensor host = values.cpu().contiguous();
  const std::span<const T> span(host.const_data_ptr<T>(), static_cast<size_t>(host.numel()));
  to.insert(to.end(), span.begin(), span.end());
}

template <typename T>
void GatherValues(c10d::Backend* control, std::vector<T>& values) {
  const std::string own(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  values.clear();
  for (const std::string& text : ExchangeTexts(control, own)) {
    const size_t begin = values.size();
    values.resize(begin + text.size() / sizeof(T));
    std::memcpy(values.data() + begin, text.data(), text.size());
  }
}

// Returns the area by the sum of the ranks of the positives (Mann and Whitney); equal scores share
// their mean rank. nullopt if all are positive, or none.
std::optional<double> Area(const std::vector<double>& scores, const std::vector<bool>& positive) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return scores[i]; });
  double positives = 0;
  double rank_sum = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    double here = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) {
      here += positive[order[end]] ? 1 : 0;
    }
    positives += here;
    rank_sum += here * static_cast<double>(begin + 1 + end) / 2;
    begin = end;
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  if (positives == 0 || negatives == 0) return std::nullopt;
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

}  // namespace

void RocAuc::Add(const at::Tensor& outputs, const at::Tensor& actual) {
  at::Tensor probabilities = outputs.to(at::kDouble).softmax(-1);
  if (outputs.size(-1) == 2) probabilities = probabilities.narrow(-1, 1, 1);
  columns_ = probabilities.size(-1);
  Append(probabilities, probabilities_);
  Append(actual, actual_);
}

void RocAuc::Gather(c10d::Backend* control) {
  GatherValues(control, probabilities_);
  GatherValues(control, actual_);
  if (!actual_.empty()) columns_ = static_cast<int64_t>(probabilities_.size() / actual_.size());
}

double RocAuc::Value() const {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (std::ranges::any_of(probabilities_, [](double p) { return std::isnan(p); })) return kNaN;
  double sum = 0;
  double classes = 0;
  std::vector<double> scores(actual_.size());
  std::vector<bool> positive(actual_.size());
  for (int64_t column = 0; column < columns_; ++column) {
    const int64_t positive_class = columns_ == 1 ? 1 : column;
    for (size_t i = 0; i < actual_.size(); ++i) {
      scores[i] = probabilities_[i * static_cast<size_t>(columns_) + static_cast<size_t>(column)];
      positive[i] = actual_[i] == positive_class;
    }
    const std::optional<double> area = Area(scores, positive);
    if (!area) continue;
    sum += *area;
    ++classes;
  }
  return classes == 0 ? kNaN : sum / classes;
}

}  // namespace ddprun::trainer
