#include "trainer/parallel/mesh.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {

void Mesh::SetTimeout(std::chrono::milliseconds timeout) const {
  for (const auto& group :
       {data.group, shard.group, replica.group, tensor.group, pipeline.group, control}) {
    if (group != nullptr) group->setTimeout(timeout);
  }
}

void Mesh::ShutDown() const {
  std::vector<c10d::Backend*> groups;  // each once, in the order of the axes on all ranks
  for (const Axis* axis : {&data, &shard, &replica, &tensor, &pipeline}) {
    c10d::Backend* const group = axis->group.get();
    if (axis->group == axis->host || std::ranges::find(groups, group) != groups.end()) continue;
    groups.push_back(group);
  }
  for (c10d::Backend* group : groups) group->shutdown();
}

Mesh Mesh::WithSameLayers() const {
  Mesh mesh = *this;
  if (tensor.size * pipeline.size > 1) mesh.control = data.host;
  return mesh;
}

namespace {

// Returns the axis of the `size` processes whose ranks differ by multiples of `stride`.
Axis AxisOf(const c10::intrusive_ptr<HostProcessGroup>& world,
            const char* name,
            int stride,
            int size) {
  const int rank = world->getRank();
  Axis axis{.rank = rank / stride % size, .size = size};
  if (size == 1) return axis;
  std::vector<int> ranks;
  for (int i = 0; i < size; ++i) ranks.push_back(rank + (i - axis.rank) * stride);
  if (size == world->getSize()) {
    axis.group = axis.host = world;
    return axis;
  }
  axis.group = axis.host = world->NewGroup(ranks);
  axis.group->setGroupDesc(std::string(name) + " axis");  // errors name the axis
  return axis;
}

}  // namespace

Mesh MakeMesh(const c10::intrusive_ptr<HostProcessGroup>& group, const ParallelDims& dims) {
  if (group == nullptr) return {};
  Mesh mesh(group);
  const int data = group->getSize() / (dims.tensor * dims.pipeline);
  const int shard = dims.shard == 0 ? data : dims.shard;
  mesh.tensor = AxisOf(group, "tensor", 1, dims.tensor);
  if (data < group->getSize()) mesh.data = AxisOf(group, "data", dims.tensor, data);
  mesh.shard = shard == data ? mesh.data : AxisOf(group, "shard", dims.tensor, shard);
  mesh.replica = AxisOf(group, "replica", dims.tensor * shard, data / shard);
  mesh.pipeline = AxisOf(group, "pipeline", dims.tensor * data, dims.pipeline);
  return mesh;
}

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

DeviceScalar NormOverModel(const DeviceScalar& squares, const Mesh& mesh) {
  const at::Tensor& on_device = squares.on_device();
  const at::Tensor sum = on_device.defined() ? on_device.clone()
                                             : at::full({}, static_cast<double>(squares),
                                                        at::dtype(at::kDouble).device(mesh.device));
  for (const Axis* axis : {&mesh.tensor, &mesh.pipeline}) AllReduceOnHost(axis->group.get(), sum);
  return DeviceScalar(sum.sqrt());
}

}  // namespace ddprun::trainer
