// A pass over the validation data.
#pragma once

#include <functional>

#include "trainer/loop/job.h"
#include "trainer/models/model.h"
#include "trainer/parallel/strategy.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Evaluates the model, which is in training mode again afterwards, on the job's validation data,
// every sample once. A collective; `before_batch` may throw. The report lacks step and epoch.
// Throws Failure.
EvalReport Evaluate(const Job& job,
                    const Mesh& mesh,
                    Strategy& strategy,
                    Model& model,
                    const std::function<void()>& before_batch);

}  // namespace ddprun::trainer
