#include "launcher/cli/flag.h"

#include <utility>

namespace ddprun::launcher {

std::vector<Flag> AllFlags() {
  const std::pair<FlagGroup, std::vector<Flag>> parts[] = {
      {FlagGroup::kRun, RunFlags()},
      {FlagGroup::kTrainer, TrainerFlags()},
      {FlagGroup::kWorkers, WorkerFlags()},
      {FlagGroup::kNodes, NodeFlags()},
      {FlagGroup::kFailure, FailureFlags()},
      {FlagGroup::kOutput, OutputFlags()},
      {FlagGroup::kCompatibility, CompatibilityFlags()},
      {FlagGroup::kOther, OtherFlags()},
  };
  std::vector<Flag> all;
  for (const auto& [group, part] : parts) {
    for (const Flag& flag : part) all.emplace_back(flag).group = group;
  }
  return all;
}

std::string_view GroupTitle(FlagGroup group) {
  switch (group) {
    case FlagGroup::kRun:
      return "What to run";
    case FlagGroup::kWorkers:
      return "Workers";
    case FlagGroup::kNodes:
      return "Several nodes";
    case FlagGroup::kFailure:
      return "Failure";
    case FlagGroup::kOutput:
      return "Output";
    case FlagGroup::kTrainer:
      return "Trainer configs";
    case FlagGroup::kCompatibility:
      return "For compatibility with torchrun; without effect";
    case FlagGroup::kOther:
      return "Help";
  }
  return "";
}

}  // namespace ddprun::launcher
