// A pass over the validation data.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include <ddprun/mesh.h>
#include "trainer/job/job.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"
#include "trainer/state/state_dict.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

// Evaluate() throws one of these on all ranks if a rank wants to stop, or has failed.
struct EvaluationGivenUp {};
struct EvaluationFailed {
  std::exception_ptr own;  // of this rank; nullptr: another rank failed
};

// A collective. Evaluates every sample of the data once, and returns a report without step and
// epoch. Afterwards the model is in training mode. `before_batch` may throw.
//
// About once a second, ranks ask each other whether `stops` is true on one of them; `rest` is the
// number of seconds that this rank still needs. If ranks compute one model together and one fails,
// it throws Failure, because it can no longer meet the others.
EvalReport EvaluateOn(const Dataset& data,
                      const Job& job,
                      const Mesh& mesh,
                      Strategy& strategy,
                      Model& model,
                      const std::function<void()>& before_batch,
                      const std::function<bool(double rest)>& stops);
// Evaluates on the job's validation data.
inline EvalReport Evaluate(const Job& job,
                           const Mesh& mesh,
                           Strategy& strategy,
                           Model& model,
                           const std::function<void()>& before_batch,
                           const std::function<bool(double rest)>& stops) {
  return EvaluateOn(*job.validation, job, mesh, strategy, model, before_batch, stops);
}

// Returns the value of a metric, or of "loss"; nullopt if the evaluation has no such metric.
std::optional<double> ValueOf(const EvalReport& report, const std::string& name);

// Names all values of a report by which a run decides, for ranks that lack it.
void VisitReport(StateVisitor& visitor, EvalReport& report);

}  // namespace ddprun::trainer
