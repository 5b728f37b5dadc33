// A pass over the validation data.
#pragma once

#include <exception>
#include <functional>

#include "trainer/job/job.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"
#include "trainer/state/state_dict.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

// Are thrown by Evaluate, on all ranks alike: a rank wanted to stop; one could not go on.
struct EvaluationGivenUp {};
struct EvaluationFailed {
  std::exception_ptr own;  // of this rank; nullptr: another one failed
};

// Evaluates the model, which is in training mode again afterwards, on the job's validation data,
// every sample once. A collective; `before_batch` may throw. Ranks ask each other about once a
// second, and never after less than a batch, whether one of them `stops`, which is told how many
// seconds are left to do. The report lacks step and epoch. Throws Failure, too: ranks that compute
// one model together cannot wait for each other when one has failed.
EvalReport Evaluate(const Job& job,
                    const Mesh& mesh,
                    Strategy& strategy,
                    Model& model,
                    const std::function<void()>& before_batch,
                    const std::function<bool(double rest)>& stops);

// Names all values of a report, for ranks that lack it.
void VisitReport(StateVisitor& visitor, EvalReport& report);

}  // namespace ddprun::trainer
