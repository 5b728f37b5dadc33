// From section "data" of a config to data sets.
#pragma once

#include "trainer/loop/job.h"

namespace ddprun::trainer {

// Fills job.train and job.validation. Throws Failure.
void OpenData(Job& job);

}  // namespace ddprun::trainer
