// The processes that train together, by what they share.
#pragma once

#include <c10/core/Device.h>

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/compute/device.h"
#include "trainer/compute/device_graph.h"

namespace ddprun::trainer {

class HostProcessGroup;

// Processes beside each other in one respect.
struct Axis {
  int rank = 0;  // of this process
  int size = 1;
  // For tensors on the device; nullptr: this process is alone.
  c10::intrusive_ptr<c10d::Backend> group = {};
  c10::intrusive_ptr<c10d::Backend> host = {};  // of the same processes, for tensors on the host
};

// How many processes share one copy of the model, and how many of the rest share its state.
struct MeshShape {
  int tensor = 1;
  int pipeline = 1;
  int shard = 0;  // 0: all of the data axis
};

struct Mesh {
  Mesh() = default;  // of one process
  // One group for everything; nullptr: this process is alone.
  template <typename Group>
  Mesh(const c10::intrusive_ptr<Group>& group) {
    if (group == nullptr) return;
    data = {.rank = group->getRank(), .size = group->getSize(), .group = group, .host = group};
    shard = data;
    world = {.rank = data.rank, .size = data.size};
    control = group;
  }

  // For collectives that begin after this call.
  void SetTimeout(std::chrono::milliseconds timeout) const;

  // Ends the groups between devices, at a normal end; on all ranks, after whatever has used them,
  // graphs with their collectives included.
  void ShutDown() const;

  // Of the processes that have the same part of the model as this one, for what they do along the
  // data axis alone: `control` is of them, too.
  Mesh OfSameLayers() const;

  // Whether what this process finds of its samples is counted in sums over all processes: others
  // find the same.
  bool counts() const { return tensor.rank == 0 && pipeline.rank + 1 == pipeline.size; }

  // Ranks are numbered with the tensor axis innermost, then shard, replicas, pipeline:
  // rank = (pipeline.rank * data.size + data.rank) * tensor.size + tensor.rank, and
  // data.rank = replica.rank * shard.size + shard.rank.
  Axis world;     // without a group: that is `control`
  Axis data;      // have the same model and other samples: gradients are averaged along it
  Axis shard;     // a part of the data axis that shares out optimizer state, gradients, parameters
  Axis replica;   // have the same shard
  Axis tensor;    // have parts of the same layers, and the same samples
  Axis pipeline;  // have layers that follow each other, and the same samples
  // Of all processes, for tensors on the host: counts, comparisons, announcements. The data axis'
  // group may be one that cannot carry those.
  c10::intrusive_ptr<c10d::Backend> control = {};
  c10::Device device = c10::kCPU;        // where the model is
  MakeDeviceGraph make_graph = nullptr;  // of that device; nullptr: it has none
};

// The mesh of that shape over all ranks of the group, which makes groups for axes of more than one
// process and less than all. A collective. REQUIRES: the shape divides the group's size.
Mesh MakeMesh(const c10::intrusive_ptr<HostProcessGroup>& group, const MeshShape& shape);

// A zeroed 1-d tensor that the group reduces without a copy, where it has memory for that device.
at::Tensor MakeFlat(c10d::Backend& group, int64_t elements, const at::TensorOptions& options);

// Begins to all-reduce the tensor in place; where it is to be waited for at once, not
// `in_background`: that is done in the order of the current stream, and groups between devices give
// no Work then (nullptr).
c10::intrusive_ptr<c10d::Work> BeginAllReduce(
    c10d::Backend& group,
    const at::Tensor& tensor,
    c10d::ReduceOp::RedOpType operation = c10d::ReduceOp::SUM,
    bool in_background = true);

// All-reduces the tensor in place, over the control group for one on the host, before it returns.
// Nothing where the group is nullptr. Throws Failure.
void AllReduceOnHost(c10d::Backend* control,
                     const at::Tensor& tensor,
                     c10d::ReduceOp::RedOpType operation = c10d::ReduceOp::SUM);

// Whether all ranks say so; a collective of the control group.
bool AllRanks(const Mesh& mesh, bool own);

// The 2-norm of the gradients of a model that the ranks of the tensor and pipeline axes have
// together, a collective of both. `squares`: their sum over what this rank counts; of what several
// ranks have alike, only one counts it. Without these axes the root of it, and no communication.
DeviceScalar NormOverModel(const DeviceScalar& squares, const Mesh& mesh);

}  // namespace ddprun::trainer
