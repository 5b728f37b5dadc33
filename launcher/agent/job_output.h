// Decides where the output and log files of all attempts go on this node.
#pragma once

#include <string>

#include "base/log.h"
#include "base/result.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/output/log_folder.h"
#include "launcher/output/stream_plan.h"
#include "launcher/output/stream_writer.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// From now on, writes `log`, which must stay where it is, also to --log_file, if that is given.
Status CopyToLogFile(const AgentPlan& plan, Console& console, Log& log);

struct AttemptOutput {
  std::string folder;  // holds <local_rank>/error.json; "" with --log_dir=/dev/null
  GroupOutputPlan plan;
};

// Use it on the loop thread only.
class JobOutput {
 public:
  // Makes the folder for logs, and prints its path if the user cannot know it. Without --log_dir,
  // it is the job's private folder, or a new one that stays if the user wants output in files.
  // Returns an error if the folder is not writable. Warns once when standard output is lost. The
  // references must outlive the result.
  static Result<JobOutput> Create(const AgentPlan& plan, Console& console, const Log& log);

  // Makes the attempt's folders; earlier attempts keep theirs.
  Result<AttemptOutput> MakeAttempt(const rendezvous::Membership& membership) const;

 private:
  JobOutput(const AgentPlan& plan, Console& console, LogFolder logs)
      : plan_(&plan), console_(&console), logs_(std::move(logs)) {}

  const AgentPlan* plan_;
  Console* console_;
  LogFolder logs_;
};

}  // namespace ddprun::launcher
