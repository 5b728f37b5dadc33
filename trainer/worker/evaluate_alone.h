// Evaluates a whole model without other ranks.
#pragma once

#include <functional>

#include "trainer/job/job.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Evaluates each sample of the data once on the device of the model, with the metrics, the batches
// and the precision of the job's config. The report has no step and no epoch. Afterwards the model
// is in training mode. `before_batch` may throw. If `stops` returns true, which is asked about once
// a second, throws EvaluationGivenUp (evaluation/evaluate.h). Throws what a batch throws.
EvalReport EvaluateAlone(const Job& job,
                         const Dataset& data,
                         Model& model,
                         const std::function<void()>& before_batch,
                         const std::function<bool()>& stops);

}  // namespace ddprun::trainer
