#include "trainer/worker/norm_guard.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "trainer/report/format.h"

namespace ddprun::trainer {

NormHistory::NormHistory() : norms_(at::zeros({kSteps}, at::kDouble)) {}

void NormHistory::Add(double norm) {
  norms_.mutable_data_ptr<double>()[count_++ % kSteps] = norm;
}

std::optional<double> NormHistory::Median() const {
  if (count_ < kLeast) return std::nullopt;
  const auto* first = norms_.const_data_ptr<double>();
  std::vector<double> sorted(first, first + std::min(count_, kSteps));
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void NormHistory::NameState(StateVisitor& visitor) {
  visitor.Section("norm_guard.");
  visitor.Tensor("norms", norms_);
  visitor.Number("count", count_);
}

void NormGuard::BeforeStep(const Step& /*step*/) {
  norm_.reset();
}

void NormGuard::AfterGradients(const Step& step) {
  const auto norm = static_cast<double>(step.strategy.GradientNorm());
  if (!std::isfinite(norm)) return;
  norm_ = norm;
  const std::optional<double> median = history_.Median();
  if (!median || norm <= most_ * *median) return;
  norm_ = most_ * *median;
  step.strategy.ScaleGradients(*norm_ / norm);
  if (step.observers == nullptr) return;
  step.observers->Note("step " + std::to_string(step.number) + ": the gradients' norm, " +
                       LossText(norm) + ", is " + ShortNumber(norm / *median) +
                       " times the median of the last steps; scaled down to " + ShortNumber(most_) +
                       " times (training.max_norm_jump)");
}

void NormGuard::AfterUpdate(const Step& /*step*/) {
  if (norm_) history_.Add(*norm_);
}

void NormGuard::NameState(StateVisitor& visitor) {
  history_.NameState(visitor);
}

}  // namespace ddprun::trainer
