// Where a job's output and log files go on this node, from its first attempt to its last.
#pragma once

#include <string>

#include "base/env.h"
#include "base/log.h"
#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/output/console.h"
#include "launcher/output/log_folder.h"
#include "launcher/output/stream_plan.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

struct JobOutputSetup {
  const Options* options;  // not null
  const Environment* env;  // not null
  int local_world_size = 1;
  bool is_trainer_config = false;
  std::string run_id;
  std::string host;        // this machine's name
  std::string job_folder;  // private, removed after the job
};

struct AttemptOutput {
  std::string folder;  // holds <local_rank>/error.json; empty: --log_dir=/dev/null
  GroupOutputPlan plan;
};

// Loop thread only.
class JobOutput {
 public:
  // Makes the folder for logs and says where it is if the user cannot know. Without --log_dir it
  // is the job's private one, unless output is asked to go to files: those are kept. What `setup`
  // refers to outlives the result. Fails when the folder cannot be written to.
  static Result<JobOutput> Create(const JobOutputSetup& setup, Console& console, const Log& log);

  // Makes the attempt's folders; earlier attempts keep theirs.
  Result<AttemptOutput> MakeAttempt(const rendezvous::Membership& membership) const;

 private:
  JobOutput(const JobOutputSetup& setup, LogFolder logs) : setup_(setup), logs_(std::move(logs)) {}

  JobOutputSetup setup_;
  LogFolder logs_;
  bool out_is_terminal_ = false;
  bool err_is_terminal_ = false;
  bool color_ = false;
};

}  // namespace ddprun::launcher
