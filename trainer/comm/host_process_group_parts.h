// Memory of each rank of a node that the node's other ranks read in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {

struct PartsInPlace {
  // Allocates the parts of all ranks. A collective. REQUIRES: `size` elements fill whole pages
  // (kPageBytes). Throws Failure.
  static PartsInPlace Allocate(HostProcessGroup& group, int64_t size, at::TensorOptions options);

  // A rank sees what another rank wrote to its `own` before their latest meeting, such as a
  // barrier. The part of a rank is valid until this rank frees its `own`. If the ranks are on
  // several nodes, or on an emulated link, both tensors are undefined.
  at::Tensor own;  // zeroed, [size]
  at::Tensor all;  // [ranks * size], the ranks' parts one after the other; read-only
};

}  // namespace ddprun::trainer
