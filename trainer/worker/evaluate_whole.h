// Evaluates a whole model.
#pragma once

#include <functional>

#include <ddprun/mesh.h>
#include "trainer/job/job.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Evaluates each sample of the data once on the device of the model, with the metrics, the batches
// and the precision of the job's config. The report has no step and no epoch. Afterwards the model
// is in training mode. `before_batch` may throw. If `stops` returns true, which is asked about once
// a second, throws EvaluationGivenUp (evaluation/evaluate.h). Throws what a batch throws.
//
// Each rank of the mesh has the whole model and computes its share of the samples; all get the
// report. A collective of mesh.control. If another rank fails, throws Failure.
EvalReport EvaluateWhole(const Job& job,
                         const Dataset& data,
                         const Mesh& mesh,
                         Model& model,
                         const std::function<void()>& before_batch,
                         const std::function<bool()>& stops);

}  // namespace ddprun::trainer
