// Plans where the output of this node's workers goes. Pure.
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
  std::string attempt_folder;      // "" means no files
  bool is_trainer_config = false;  // only rank 0 prints, with a progress bar
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool color = false;  // terminals show colours
  // TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, for --tee; "" means torchrun's default.
  std::string prefix_template;
};

GroupOutputPlan PlanOutput(const Options& options, const OutputSurroundings& surroundings);

// Fills the template as Python's string.Template does: $name, ${name} and $$. Keeps unknown names.
std::string FillPrefix(std::string_view prefix_template,
                       const std::string& role,
                       int rank,
                       int local_rank);

}  // namespace ddprun::launcher
