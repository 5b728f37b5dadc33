// Where a job's output and log files go on this node, from its first attempt to its last.
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

struct AttemptOutput {
  std::string folder;  // holds <local_rank>/error.json; empty: --log_dir=/dev/null
  GroupOutputPlan plan;
};

// Loop thread only.
class JobOutput {
 public:
  // Makes the folder for logs and says where it is if the user cannot know. Without --log_dir it
  // is the job's private one, unless output is asked to go to files: those are kept. `plan`
  // outlives the result. Fails when the folder cannot be written to.
  static Result<JobOutput> Create(const AgentPlan& plan, Console& console, const Log& log);

  // Makes the attempt's folders; earlier attempts keep theirs.
  Result<AttemptOutput> MakeAttempt(const rendezvous::Membership& membership) const;

 private:
  JobOutput(const AgentPlan& plan, LogFolder logs) : plan_(&plan), logs_(std::move(logs)) {}

  const AgentPlan* plan_;
  LogFolder logs_;
  bool out_is_terminal_ = false;
  bool err_is_terminal_ = false;
  bool color_ = false;
};

}  // namespace ddprun::launcher
