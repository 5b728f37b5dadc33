#include "trainer/optim/plateau.h"

#include <ATen/ops/tensor.h>

#include <algorithm>

namespace ddprun::trainer {

bool Plateau::Improves(double value) const {
  return options_.higher_is_better ? value > best_ * (1 + options_.threshold)
                                   : value < best_ * (1 - options_.threshold);
}

bool Plateau::Note(double value) {
  if (!options_.on) return false;
  if (Improves(value)) {
    best_ = value;
    missed_ = 0;
  } else {
    ++missed_;
  }
  if (waiting_ > 0) {
    --waiting_;
    missed_ = 0;
  }
  if (missed_ <= options_.patience) return false;
  waiting_ = options_.cooldown;
  missed_ = 0;
  const double before = factor_;
  factor_ = std::max(factor_ * options_.factor, options_.smallest);
  return factor_ < before;
}

void Plateau::NameState(StateVisitor& visitor) {
  if (!options_.on) return;
  at::Tensor numbers = at::tensor({factor_, best_}, at::kDouble);
  visitor.Section("plateau.");
  visitor.Tensor("factor_and_best", numbers);
  factor_ = numbers.const_data_ptr<double>()[0];
  best_ = numbers.const_data_ptr<double>()[1];
  visitor.Number("missed", missed_);
  visitor.Number("waiting", waiting_);
}

}  // namespace ddprun::trainer
