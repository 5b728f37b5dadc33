// The weights that a run leaves behind.
#pragma once

#include <cstdint>

#include "trainer/job/job.h"
#include "trainer/loop/trainer.h"
#include "trainer/report/observer.h"
#include "trainer/worker/resume.h"

namespace ddprun::trainer {

// Writes `model/` of the run, and `adapter/` if the model has LoRA, and notes where they are. The
// weights are those of `step`. Throws Failure ("weights-not-saved"), which says where they are.
void SaveWeights(const Job& job,
                 const RunStart& start,
                 int64_t step,
                 Trainer& trainer,
                 const Observers& observers);

}  // namespace ddprun::trainer
