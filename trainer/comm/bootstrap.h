// Makes a process group from the environment that a launcher (ddprun, torchrun, srun) sets.
#pragma once

#include <chrono>

#include "base/env.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/comm/rank_info.h"

namespace ddprun::trainer {

// Returns the generation of the first group of all ranks that this process makes. A generation
// above 0 means that this process replaces a killed rank. Throws Failure.
int FirstGeneration(const Environment& environment);

// Returns the launcher's flight recorder (DDPRUN_FLIGHT_RECORDER_FD). nullptr means that there is
// no usable recorder; a process runs without one, too. Each process has at most one.
std::shared_ptr<FlightRecorder> AttachFlightRecorder(const Environment& environment,
                                                     const RankInfo& rank);

// Makes the process group of all ranks. A collective. A process may call it again, after it has
// left the group or while it still has it; all ranks must then do so in the same order.
//
// Under ddprun, the ranks of a node share the memory of the descriptor DDPRUN_NODE_MEMORY_FD. Under
// other launchers, the first rank of a node creates this memory and passes it on through the store
// at MASTER_ADDR:MASTER_PORT, which the launcher or the user runs. The others wait at most
// `timeout`. Ranks on several nodes find each other through this store.
//
// If srun itself has started the ranks and MASTER_ADDR is not set, there is no store: the ranks of
// one node use a local socket, and several nodes are an error.
//
// `recorder`: nullptr attaches the launcher's recorder. `link_gigabit`: as in Options. Throws
// Failure.
c10::intrusive_ptr<HostProcessGroup> InitProcessGroup(const Environment& environment,
                                                      std::chrono::milliseconds timeout,
                                                      std::shared_ptr<FlightRecorder> recorder = {},
                                                      double link_gigabit = 0);

}  // namespace ddprun::trainer
