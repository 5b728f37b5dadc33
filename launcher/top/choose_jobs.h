// Finds the jobs that a user names.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/top/job_sample.h"
#include "launcher/top/top_text.h"

namespace ddprun::launcher {

// Returns the jobs of this machine; if `name` is not "", only those that it names: the pid of a
// ddprun, the number of a SLURM job, or the folder of a run. Error: there is none ("no-such-job").
Result<TopSample> SampleJobs(const std::string& name);

}  // namespace ddprun::launcher
