#include "trainer/parallel/mesh.h"

#include <ATen/ops/zeros.h>

#include <vector>

namespace ddprun::trainer {

void Mesh::SetTimeout(std::chrono::milliseconds timeout) const {
  for (const auto& group : {data.group, control}) {
    if (group != nullptr) group->setTimeout(timeout);
  }
}

at::Tensor MakeFlat(c10d::Backend& group, int64_t elements, const at::TensorOptions& options) {
  return group.supportsTensorAlloc(options.device().index())
             ? group.allocateTensor(elements, options)
             : at::zeros({elements}, options);
}

void AllReduceOnHost(c10d::Backend* control,
                     const at::Tensor& tensor,
                     c10d::ReduceOp::RedOpType operation) {
  if (control == nullptr) return;
  c10d::AllreduceOptions options;
  options.reduceOp = operation;
  options.asyncOp = false;
  std::vector<at::Tensor> tensors = {tensor};
  control->allreduce(tensors, options)->wait();
}

}  // namespace ddprun::trainer
