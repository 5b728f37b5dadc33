#include "launcher/cli/flag.h"

namespace ddprun::launcher {

std::vector<Flag> AllFlags() {
  std::vector<Flag> all;
  for (const auto& part :
       {RunFlags(), WorkerFlags(), NodeFlags(), FailureFlags(), OutputFlags(), OtherFlags()}) {
    all.insert(all.end(), part.begin(), part.end());
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
