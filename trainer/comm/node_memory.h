// The memory that the ranks of one node share, whoever has started them.
#pragma once

#include <chrono>
#include <memory>

#include "base/env.h"
#include "base/unique_fd.h"
#include "rendezvous/store/store.h"
#include "trainer/comm/rank_info.h"

namespace ddprun::trainer {

// A collective of the node's ranks. `generation`: as HostProcessGroup's; the file may be the same
// for all of them. `store`: the job's; nullptr where there is none (srun).
Result<UniqueFd> NodeMemory(const Environment& environment,
                            const RankInfo& info,
                            int generation,
                            rendezvous::Store* store,
                            std::chrono::milliseconds timeout);

// "ddprun/<run>/<restart>/<name>": the store may be the same for all attempts of a job.
std::string StoreKey(const Environment& environment, const std::string& name);

}  // namespace ddprun::trainer
