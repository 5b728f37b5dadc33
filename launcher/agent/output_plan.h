// Pure: the options and this node's place in the job -> what happens to its workers' output.
#pragma once

#include <string>

#include "launcher/cli/options.h"
#include "launcher/output/stream_plan.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

struct OutputSurroundings {
  const rendezvous::Membership& membership;
  int local_world_size = 1;
  std::string host;                // this machine's name
  std::string attempt_folder;      // empty: no files
  bool is_trainer_config = false;  // only rank 0 prints, with a progress bar
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool color = false;  // terminals show colours
  // TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, for tee'd streams; empty: torchrun's default.
  std::string prefix_template;
};

GroupOutputPlan PlanOutput(const Options& options, const OutputSurroundings& surroundings);

// As Python's string.Template does: $name, ${name} and $$; unknown names stay.
std::string FillPrefix(std::string_view prefix_template,
                       const std::string& role,
                       int rank,
                       int local_rank);

}  // namespace ddprun::launcher
