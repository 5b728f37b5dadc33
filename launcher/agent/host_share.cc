#include "launcher/agent/host_share.h"

#include <string>

#include "base/flight_recorder.h"
#include "launcher/agent/worker_defaults.h"

namespace ddprun::launcher {

void SetHostShare(const HostShare& share, Environment& env) {
  env.Set("LOCAL_RANK", std::to_string(share.first_local_rank));
  env.Set("LOCAL_WORLD_SIZE", std::to_string(share.workers));
  env.Set("GROUP_RANK", std::to_string(share.host));
  env.Set("GROUP_WORLD_SIZE", std::to_string(share.hosts));
  // The agent's recorder has one page.
  env.Set(kFlightPageVariable, "0");
  if (share.workers > 1) env.Unset("DDPRUN_NODE_MEMORY_FD");
  if (share.threads > 0) ShareCores(share.threads, /*workers=*/1, env);
}

}  // namespace ddprun::launcher
