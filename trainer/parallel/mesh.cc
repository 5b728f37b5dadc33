#include <algorithm>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "trainer/comm/host_process_group.h"

namespace ddprun {

void Mesh::SetTimeout(std::chrono::milliseconds timeout) const {
  for (const auto& group : {data.group, shard.group, replica.group, tensor.group, pipeline.group,
                            later.group, earlier.group, control}) {
    if (group != nullptr) group->setTimeout(timeout);
  }
}

void Mesh::ShutDown() const {
  std::vector<c10d::Backend*> groups;  // each once, in the order of the axes on all ranks
  for (const Axis* axis : {&data, &shard, &replica, &tensor, &pipeline, &later, &earlier}) {
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
  const bool whole = size == world->getSize();
  axis.group = axis.host = whole ? world : world->NewGroup(ranks);
  if (!whole) axis.group->setGroupDesc(std::string(name) + " axis");  // errors name the axis
  return axis;
}

}  // namespace

Mesh MakeMesh(const c10::intrusive_ptr<HostProcessGroup>& group, const MeshSizes& sizes) {
  if (group == nullptr) return {};
  Mesh mesh(group);
  const int data = group->getSize() / (sizes.tensor * sizes.pipeline);
  const int shard = sizes.shard == 0 ? data : sizes.shard;
  mesh.tensor = AxisOf(group, "tensor", 1, sizes.tensor);
  if (data < group->getSize()) mesh.data = AxisOf(group, "data", sizes.tensor, data);
  mesh.shard = shard == data ? mesh.data : AxisOf(group, "shard", sizes.tensor, shard);
  mesh.replica = AxisOf(group, "replica", sizes.tensor * shard, data / shard);
  mesh.pipeline = AxisOf(group, "pipeline", sizes.tensor * data, sizes.pipeline);
  mesh.later = mesh.earlier = mesh.pipeline;
  return mesh;
}

}  // namespace ddprun
