// Every rank updates a part of the parameters and gets the others' parts from them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

#include "trainer/parallel/unit_layout.h"

namespace ddprun::trainer {

// One thread.
class ShardedUpdate {
 public:
  // Moves the parameters to memory that the ranks of the axis gather without copies; as units of
  // about `bytes`.
  ShardedUpdate(std::span<const NamedParameter> parameters, const Axis& axis, int64_t bytes);

  std::vector<ShardedUnit>& units() { return units_; }

  // The own pieces get their parts of the parameters' gradients.
  void TakeGradients() const;

  // Calls `update` for the own pieces of one unit after the other, from the last on, while those
  // before go to the other ranks. Then all ranks have all parameters. A collective; throws Failure.
  using Update = std::function<void(std::span<const at::Tensor> pieces)>;
  void Step(const Update& update);

  double exposed_seconds() const { return exposed_seconds_; }  // of the last step

 private:
  const Axis axis_;
  std::vector<ShardedUnit> units_;
  double exposed_seconds_ = 0;
};

}  // namespace ddprun::trainer
