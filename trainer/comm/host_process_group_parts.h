// Memory of each rank of a node that the node's other ranks read in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {

struct PartsInPlace {
  // Returns this rank's part, zeroed, [size]. If the ranks are on several nodes, or on an emulated
  // link, it is undefined. REQUIRES: `size` elements fill whole pages (kPageBytes). Throws Failure.
  static at::Tensor Allocate(HostProcessGroup& group, int64_t size, at::TensorOptions options);

  // Returns the ranks' parts one after the other, [ranks * size], read-only. `own` is the result of
  // Allocate(), with an equal size on all ranks. A rank sees what another rank wrote to its part
  // before their latest meeting, such as a barrier. The part of a rank is valid until this rank
  // frees it, or is lost: then map the parts again. A collective. Throws Failure.
  static at::Tensor Map(HostProcessGroup& group, const at::Tensor& own);
};

}  // namespace ddprun::trainer
