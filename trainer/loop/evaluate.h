// A pass over the validation data.
#pragma once

#include "base/flight_recorder.h"
#include "trainer/loop/job.h"
#include "trainer/models/model.h"
#include "trainer/parallel/strategy.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Evaluates the model, which is in training mode again afterwards, on the job's validation data,
// every sample once. A collective; `recorder` may be nullptr. The report lacks step and epoch.
// Throws Failure.
EvalReport Evaluate(const Job& job,
                    const Mesh& mesh,
                    Strategy& strategy,
                    Model& model,
                    FlightRecorder* recorder);

}  // namespace ddprun::trainer
