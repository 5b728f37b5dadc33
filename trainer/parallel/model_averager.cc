#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/flatten_dense_tensors.h>
#include <ATen/ops/unflatten_dense_tensors.h>

#include <map>
#include <utility>

#include <ddprun/comm_hook.h>
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun {

using namespace trainer;  // NOLINT: the internals of this library

PeriodicModelAverager::PeriodicModelAverager(std::vector<at::Tensor> parameters,
                                             c10::intrusive_ptr<c10d::Backend> group,
                                             const Options& options)
    : group_(std::move(group)), options_(options) {
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (at::Tensor& parameter : parameters) {
    by_type[parameter.scalar_type()].push_back(std::move(parameter));
  }
  for (auto& [type, tensors] : by_type) by_type_.push_back(std::move(tensors));
}

void PeriodicModelAverager::AfterStep() {
  averaged_ = false;
  const int64_t since = steps_++ - options_.warmup_steps;
  if (since >= 0 && since % options_.period == 0) Average();
}

void PeriodicModelAverager::NameState(StateVisitor& visitor) {
  int64_t averaged = averaged_ ? 1 : 0;
  visitor.Number("step", steps_);
  visitor.Number("averaged", averaged);
  averaged_ = averaged != 0;
}

void PeriodicModelAverager::Average() {
  if (std::exchange(averaged_, true)) return;
  const at::NoGradGuard no_grad;
  for (const std::vector<at::Tensor>& parameters : by_type_) {
    const at::Tensor flat = at::flatten_dense_tensors(parameters);
    BeginAllReduce(*group_, flat, c10d::ReduceOp::AVG)->wait();
    at::_foreach_copy_(parameters, at::unflatten_dense_tensors(flat, parameters));
  }
}

}  // namespace ddprun
