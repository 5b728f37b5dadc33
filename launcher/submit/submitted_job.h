// Gives a batch file to SLURM, and follows the job.
#pragma once

#include <string>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Returns the path of a program of SLURM: "sbatch". Error: it is not installed ("no-slurm").
Result<std::string> FindSlurmProgram(const std::string& name, const Environment& env);

// Returns the job's id. Error: sbatch refuses the job ("sbatch-refused", Code::kUsage), or it does
// not answer (kDeadlineExceeded: the job may be there).
Result<std::string> SubmitScript(const std::string& path, const Environment& env);

// Prints the job's states on stderr and its output on stdout until it has ended. Returns its exit
// code.
Result<int> FollowJob(const std::string& id, const Environment& env);

}  // namespace ddprun::launcher
