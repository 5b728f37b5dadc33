#include "trainer/job/early_stopping.h"

#include <ATen/ops/tensor.h>

namespace ddprun::trainer {

void EarlyStopping::NameState(StateVisitor& visitor) {
  if (!is_on()) return;
  at::Tensor best = at::tensor({best_}, at::kDouble);
  visitor.Section("early_stopping.");
  visitor.Tensor("best", best);
  best_ = best.item<double>();
  visitor.Number("missed", missed_);
  visitor.Number("seen", seen_);
}

}  // namespace ddprun::trainer
