// A pass over the validation data.
#pragma once

#include "trainer/comm/bootstrap.h"
#include "trainer/loop/job.h"
#include "trainer/models/model.h"
#include "trainer/report/step_report.h"

namespace ddprun::trainer {

// Evaluates the model, which is in training mode again afterwards, on the job's validation data,
// every sample once. A collective; `group` is nullptr for a single process, `recorder` may be. The
// report lacks step and epoch. Throws Failure.
EvalReport Evaluate(const Job& job,
                    const RankInfo& rank,
                    Model& model,
                    HostProcessGroup* group,
                    FlightRecorder* recorder);

}  // namespace ddprun::trainer
