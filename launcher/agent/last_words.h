// Who is told how the job has ended.
#pragma once

#include <string>

#include "base/log.h"
#include "base/result.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/output/stream_writer.h"
#include "launcher/process/process.h"
#include "launcher/report/job_end.h"

namespace ddprun::launcher {

// What `error_file`, the text of a worker's error file, becomes for the parent: its message gets
// an errorCode (negative for signals), since a killed worker cannot have known its own. Any other
// text stays as it is: the parent may know what to make of it.
std::string ForParent(const std::string& error_file, const ProcessExit& exit);

// Copies the file at `from`, if there is one, over the one at `to`, which belongs to whoever has
// started ddprun, as torch elastic does.
Status PassErrorFileOn(const std::string& from, const ProcessExit& exit, const std::string& to);

// On standard error, in the file that --report_file asks for, and in TORCHELASTIC_ERROR_FILE.
void SayLastWords(const AgentPlan& plan, const JobEnd& end, Console& console, const Log& log);

}  // namespace ddprun::launcher
