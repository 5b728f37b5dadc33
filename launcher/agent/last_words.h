// Reports how the job ended: on the console, in files, and to the process that started ddprun.
#pragma once

#include <string>

#include "base/log.h"
#include "base/result.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/hang/hang_report.h"
#include "launcher/output/stream_writer.h"
#include "launcher/process/process_exit.h"
#include "launcher/report/job_end.h"

namespace ddprun::launcher {

// Returns the text of a worker's error file with an errorCode in its message (negative for
// signals), because a killed worker could not write its own. Returns a text without a message
// unchanged, because the parent process may understand it.
std::string ErrorTextForParent(const std::string& error_file, const ProcessExit& exit);

// Copies the error file at `from`, if it exists, to `to`, the error file that the parent process
// of ddprun reads. torch elastic does so, too.
Status CopyErrorFile(const std::string& from, const ProcessExit& exit, const std::string& to);

// Returns the part of the end that decides whether the job is started again.
JobOutcome OutcomeOf(const JobEnd& end);

// Reports a hang on standard error.
void ReportHang(const AgentPlan& plan, const HangReport& hang, Console& console);

// Reports the end on standard error, in the file of --report_file, in the file of
// TORCHELASTIC_ERROR_FILE, and to Options::outcome. If this node may then ask SLURM to put the job
// back into the queue, SIGTERM no longer ends this process: srun --kill-on-bad-exit sends it as
// soon as the agent of another node has ended.
void ReportJobEnd(const AgentPlan& plan, const JobEnd& end, Console& console, const Log& log);

}  // namespace ddprun::launcher
