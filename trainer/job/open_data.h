// Opens the data sets that the section "data" of a config describes.
#pragma once

#include <functional>

#include "trainer/job/job.h"

namespace ddprun::trainer {

// Opens one part of a job and returns whether it succeeded. OpenJob()'s lets a Failure pass.
using Attempt = std::function<bool(const std::function<void()>& part)>;

// Fills job.train, job.validation and the members that belong to them.
void OpenData(Job& job, const Attempt& attempt);

}  // namespace ddprun::trainer
