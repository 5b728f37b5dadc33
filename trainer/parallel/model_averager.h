// Averages the parameters of all ranks every few steps; in between each rank trains alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Works as PyTorch's PeriodicModelAverager: with `warmup_steps` 100 and `period` 4, it averages
// after steps 101, 105, 109 and so on. All ranks call the same methods equally often. One thread.
class PeriodicModelAverager {
 public:
  struct Options {
    int64_t period = 4;  // steps, at least 1
    int64_t warmup_steps = 0;
  };
  // `parameters`: dense tensors. `group`: the group of the ranks to average over.
  PeriodicModelAverager(std::vector<at::Tensor> parameters,
                        c10::intrusive_ptr<c10d::Backend> group,
                        const Options& options);

  // Counts a step. Call it after every update of the parameters. It is a collective in steps that
  // average. Throws Failure.
  void AfterStep();
  // Averages now, unless there was no update since the last average. A collective.
  void Average();

  void NameState(StateVisitor& visitor);

  bool warming_up() const { return steps_ < options_.warmup_steps; }
  bool averaged() const { return averaged_; }  // since the last update

 private:
  std::vector<std::vector<at::Tensor>> by_type_;  // parameters
  const c10::intrusive_ptr<c10d::Backend> group_;
  const Options options_;
  int64_t steps_ = 0;
  bool averaged_ = true;
};

}  // namespace ddprun::trainer
