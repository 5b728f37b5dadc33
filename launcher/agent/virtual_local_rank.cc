#include "launcher/agent/virtual_local_rank.h"

#include <optional>
#include <string>

#include "base/flight_recorder.h"
#include "base/text.h"

namespace ddprun::launcher {

Status CheckVirtualLocalRank(const Environment& base, int local_world_size) {
  const std::optional<std::string> visible = base.Get("CUDA_VISIBLE_DEVICES");
  if (!visible) return {};
  const auto count = visible->empty() ? 0 : std::ssize(SplitAt(*visible, ','));
  if (local_world_size <= count) return {};
  return Error{.code = Code::kUsage,
               .title = "TOO FEW GPUS",
               .where = "--virtual_local_rank",
               .what = "CUDA_VISIBLE_DEVICES is \"" + *visible + "\", which names " +
                       CountText(count, "GPU") + " for " + CountText(local_world_size, "worker") +
                       "; with --virtual_local_rank each needs its own.",
               .hint = "Start fewer workers, or name more GPUs.",
               .page = "no-gpu"};
}

void ShowOwnGpu(int local_rank, Environment& env) {
  std::string device = std::to_string(local_rank);
  if (const std::optional<std::string> visible = env.Get("CUDA_VISIBLE_DEVICES")) {
    device = SplitAt(*visible, ',')[static_cast<size_t>(local_rank)];
    std::erase(device, ' ');
  }
  env.Set("CUDA_VISIBLE_DEVICES", device);
  env.Set("LOCAL_RANK", "0");
  env.Set(kFlightPageVariable, std::to_string(local_rank));
}

}  // namespace ddprun::launcher
