#include "trainer/parallel/mesh.h"

#include <vector>

namespace ddprun::trainer {

void Mesh::SetTimeout(std::chrono::milliseconds timeout) const {
  for (const auto& group : {data.group, control}) {
    if (group != nullptr) group->setTimeout(timeout);
  }
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
