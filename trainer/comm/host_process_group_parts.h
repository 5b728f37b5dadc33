// Memory of each rank of a node that the others read where it is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {

struct PartsInPlace {
  // A collective. REQUIRES: `size` elements are whole pages (kPageBytes). Throws Failure.
  static PartsInPlace Allocate(HostProcessGroup& group, int64_t size, at::TensorOptions options);

  // What another rank has written is there for those that it has met since, as in a barrier; it is
  // gone with that rank's `own`. Both are undefined where the ranks are on several nodes.
  at::Tensor own;  // zeroed, [size]
  at::Tensor all;  // [ranks * size], the ranks' parts one after the other; not to be written to
};

}  // namespace ddprun::trainer
