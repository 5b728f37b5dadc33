// Every rank updates a part of the parameters and gets the other parts from the other ranks.
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
  // Moves the parameters, in units of about `bytes`, to memory that the ranks of the axis gather
  // without copies.
  ShardedUpdate(std::span<const NamedParameter> parameters, const Axis& axis, int64_t bytes);

  std::vector<ShardedUnit>& units() { return units_; }

  // Sets the gradients of this rank's pieces to their parts of the parameters' gradients.
  void TakeGradients() const;

  // Calls `update` for this rank's pieces of each unit, from the last unit on, while earlier
  // results go to other ranks. All ranks then have all parameters. A collective. Throws Failure.
  using Update = std::function<void(std::span<const at::Tensor> pieces)>;
  void Step(const Update& update);

  double exposed_seconds() const { return exposed_seconds_; }  // of the last step

 private:
  const Axis axis_;
  std::vector<ShardedUnit> units_;
  double exposed_seconds_ = 0;
};

}  // namespace ddprun::trainer
