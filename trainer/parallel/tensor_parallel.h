// The tensor axis of models.
#pragma once

#include <memory>

#include <ddprun/tensor_parallel.h>
#include "trainer/compute/tensor_axis.h"

namespace ddprun::trainer {

// Makes the parallel layers that models use on this axis. REQUIRES: axis.group != nullptr.
std::shared_ptr<const TensorAxis> MakeTensorAxis(const Axis& axis);

}  // namespace ddprun::trainer
