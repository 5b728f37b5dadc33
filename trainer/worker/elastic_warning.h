// How the batch of an elastic job follows the number of its nodes.
#pragma once

#include <string>

#include "base/env.h"
#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"

namespace ddprun::trainer {

// Returns a line if the batch changes when nodes come or go; "" if it does not.
std::string ElasticWarning(const Job& job, const Environment& environment, const StepPlan& plan);

}  // namespace ddprun::trainer
