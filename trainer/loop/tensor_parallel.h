// Which models ranks can share out, layer by layer.
#pragma once

#include <cstdint>

#include "trainer/loop/job.h"

namespace ddprun::trainer {

// Throws Failure (page "uneven-parts") where the job's model has not a part of each layer for every
// one of `ranks`: heads cannot be cut.
void CheckTensorParallel(const Job& job, int64_t ranks);

}  // namespace ddprun::trainer
