#include "trainer/parallel/mesh_collectives.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace ddprun::trainer {

at::Tensor MakeFlat(c10d::Backend& group, int64_t elements, const at::TensorOptions& options) {
  if (!group.supportsTensorAlloc(options.device().index())) return at::zeros({elements}, options);
  at::Tensor memory = group.allocateTensor(elements, options);
  return memory.is_cpu() ? memory : memory.zero_();  // memory of a host group is zeroed already
}

c10::intrusive_ptr<c10d::Work> BeginAllReduce(c10d::Backend& group,
                                              const at::Tensor& tensor,
                                              c10d::ReduceOp::RedOpType operation,
                                              bool in_background) {
  c10d::AllreduceOptions options;
  options.reduceOp = operation;
  options.asyncOp = in_background;
  std::vector<at::Tensor> tensors = {tensor};
  return group.allreduce(tensors, options);
}

void AllReduceOnHost(c10d::Backend* control,
                     const at::Tensor& tensor,
                     c10d::ReduceOp::RedOpType operation) {
  if (control == nullptr) return;
  const auto work = BeginAllReduce(*control, tensor, operation, /*in_background=*/false);
  if (work != nullptr) work->wait();
}

bool AllRanks(const Mesh& mesh, bool own) {
  const at::Tensor all = at::full({1}, own ? 1 : 0, at::kInt);
  AllReduceOnHost(mesh.control.get(), all, c10d::ReduceOp::MIN);
  return all.item<int>() == 1;
}

void CheckCollectives(const Mesh& mesh) {
  for (const Axis* axis : {&mesh.data, &mesh.shard, &mesh.replica, &mesh.tensor, &mesh.pipeline,
                           &mesh.later, &mesh.earlier}) {
    // Groups of the host throw their errors themselves.
    if (axis->group == axis->host || axis->group->getError() == c10d::ErrorType::SUCCESS) continue;
    C10_THROW_ERROR(DistBackendError, axis->group->getBackendName() +
                                          " reports an error of a collective that was queued.");
  }
}

bool HostWaitsForRanks(const Mesh& mesh) {
  const bool by_host =
      mesh.data.group == mesh.data.host && mesh.pipeline.group == mesh.pipeline.host;
  return mesh.tensor.size == 1 && (mesh.device.is_cpu() || by_host);
}

DeviceScalar NormOverModel(const DeviceScalar& squares, const Mesh& mesh) {
  const at::Tensor& on_device = squares.on_device();
  const at::Tensor sum = on_device.defined() ? on_device.clone()
                                             : at::full({}, static_cast<double>(squares),
                                                        at::dtype(at::kDouble).device(mesh.device));
  for (const Axis* axis : {&mesh.tensor, &mesh.pipeline}) AllReduceOnHost(axis->group.get(), sum);
  return DeviceScalar(sum.sqrt());
}

}  // namespace ddprun::trainer
