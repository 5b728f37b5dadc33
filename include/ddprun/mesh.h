// The processes that train together, and what they share.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <memory>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <ddprun/options.h>

namespace ddprun {

class HostProcessGroup;
namespace trainer {
class DeviceGraph;
}

// The processes that lie along one axis of the mesh.
struct Axis {
  int rank = 0;  // of this process
  int size = 1;
  // For tensors on the device. nullptr means that this process is alone.
  c10::intrusive_ptr<c10d::Backend> group = {};
  c10::intrusive_ptr<c10d::Backend> host = {};  // of these processes, for host tensors
};

struct Mesh {
  Mesh() = default;  // of one process
  // Makes a mesh with one group for everything. nullptr means that this process is alone.
  template <typename Group>
  Mesh(const c10::intrusive_ptr<Group>& group) {
    if (group == nullptr) return;
    shard = data =
        Axis{.rank = group->getRank(), .size = group->getSize(), .group = group, .host = group};
    world = {.rank = data.rank, .size = data.size};
    control = group;
  }

  // Sets the timeout of collectives that begin after this call.
  void SetTimeout(std::chrono::milliseconds timeout) const;

  // Ends the groups between devices at a normal end. All ranks call it after all users of the
  // groups are destroyed, including graphs with their collectives.
  void ShutDown() const;

  // Returns the mesh of the ranks with the same part of the model, with a `control` group of them.
  Mesh WithSameLayers() const;

  // Returns whether this process adds its losses to sums over all ranks. Ranks that share a replica
  // see the same samples, so only one of them does.
  bool adds_to_sums() const { return tensor.rank == 0 && pipeline.rank + 1 == pipeline.size; }

  // Ranks are numbered with the tensor axis innermost, then shard, replicas, pipeline:
  // rank = (pipeline.rank * data.size + data.rank) * tensor.size + tensor.rank, and
  // data.rank = replica.rank * shard.size + shard.rank.
  Axis world;     // has no group, because `control` is this group
  Axis data;      // same model, other samples: ranks average gradients along it
  Axis shard;     // the part of the data axis that divides optimizer state, gradients, parameters
  Axis replica;   // same shard
  Axis tensor;    // parts of the same layers, same samples
  Axis pipeline;  // consecutive layers, same samples
  Axis later, earlier;  // the pipeline axis, with groups for messages to later and earlier stages
  // The group of all processes for host tensors: counts, comparisons, announcements. It is
  // separate, because the data axis' group may not support host tensors.
  c10::intrusive_ptr<c10d::Backend> control = {};
  c10::Device device = c10::kCPU;                                              // the model's device
  std::unique_ptr<trainer::DeviceGraph> (*make_graph)(c10::Device) = nullptr;  // or it has none
};

// Makes the mesh over all ranks of the group. Makes a new group for each axis that has more than
// one process but not all. A collective. REQUIRES: the sizes divide the group's size.
Mesh MakeMesh(const c10::intrusive_ptr<HostProcessGroup>& group, const MeshSizes& sizes);

}  // namespace ddprun
