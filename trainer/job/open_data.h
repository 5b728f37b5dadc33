// From the section "data" of a config to the data sets of a job.
#pragma once

#include <functional>

#include "trainer/job/job.h"

namespace ddprun::trainer {

// Does one part of opening a job and says whether it went well. OpenJob's lets a Failure pass.
using Attempt = std::function<bool(const std::function<void()>& part)>;

// Fills job.train, job.validation and what belongs to them.
void OpenData(Job& job, const Attempt& attempt);

}  // namespace ddprun::trainer
