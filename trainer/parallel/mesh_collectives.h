// Collectives that the parts of a training step share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <ddprun/device_scalar.h>
#include <ddprun/mesh.h>

namespace ddprun::trainer {

// Returns a zeroed 1-d tensor. If the group has memory for the device, it reduces this tensor
// without a copy.
at::Tensor MakeFlat(c10d::Backend& group, int64_t elements, const at::TensorOptions& options);

// Begins to all-reduce the tensor in place. If the caller waits at once, `in_background` should be
// false: groups between devices then work in the order of the current stream and return nullptr.
c10::intrusive_ptr<c10d::Work> BeginAllReduce(
    c10d::Backend& group,
    const at::Tensor& tensor,
    c10d::ReduceOp::RedOpType operation = c10d::ReduceOp::SUM,
    bool in_background = true);

// All-reduces the tensor in place and waits. Host tensors need the control group. Does nothing if
// the group is nullptr. Throws Failure.
void AllReduceOnHost(c10d::Backend* control,
                     const at::Tensor& tensor,
                     c10d::ReduceOp::RedOpType operation = c10d::ReduceOp::SUM);

// Returns whether `own` is true on all ranks. A collective of the control group.
bool AllRanks(const Mesh& mesh, bool own);

// Throws c10::DistBackendError if a collective between devices has failed, for then its result is
// wrong. Sees all collectives for whose results the host has waited.
void CheckCollectives(const Mesh& mesh);

// Returns whether the host waits for what ranks send each other in a step. If not, its clock does
// not show how long a device waits.
bool HostWaitsForRanks(const Mesh& mesh);

// Returns the 2-norm of the gradients of a model that the ranks of the tensor and pipeline axes
// divide. A collective of both axes. `squares`: the sum of squares that this rank counts; if
// several ranks have equal gradients, only one counts them.
DeviceScalar NormOverModel(const DeviceScalar& squares, const Mesh& mesh);

}  // namespace ddprun::trainer
