#include "trainer/worker/elastic_warning.h"

#include "base/text.h"

namespace ddprun::trainer {

std::string ElasticWarning(const Job& job, const Environment& environment, const StepPlan& plan) {
  const std::string flags = " " + environment.GetOr("DDPRUN_NODE_FLAGS", "");
  const size_t nodes = flags.find(" --nnodes=");
  const bool elastic = nodes != std::string::npos &&
                       flags.substr(nodes + 1, flags.find(' ', nodes + 1) - nodes - 1).find(':') !=
                           std::string::npos;
  if (!elastic || job.config.training.virtual_ranks > 0) return "";
  return "a step takes " + std::to_string(plan.step_samples) + " samples with " +
         CountText(plan.data_ranks, "rank") +
         ", and another number when nodes come or go; the learning rate does not change with it. "
         "training.virtual_ranks keeps the batch." +
         (job.config.run.max_steps > 0
              ? ""
              : " The run then goes on only if run.max_steps, and not epochs, gives its length.");
}

}  // namespace ddprun::trainer
