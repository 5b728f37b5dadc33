// From the environment that a launcher sets (ddprun, torchrun) to a process group.
#pragma once

#include <chrono>

#include "base/env.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/comm/rank_info.h"

namespace ddprun::trainer {

// Of the group of all ranks that this process makes first: above 0 where it takes the place of one
// that was killed. Throws Failure.
int FirstGeneration(const Environment& environment);

// The flight recorder of the launcher (DDPRUN_FLIGHT_RECORDER_FD); nullptr when it gave none that
// can be used: it is a help, not a need. One per process.
std::shared_ptr<FlightRecorder> AttachFlightRecorder(const Environment& environment,
                                                     const RankInfo& rank);

// The process group of all ranks. A collective. A process may leave it and make it anew, or make
// another one beside it: all ranks as often, in the same order. Under ddprun the memory of a node's
// ranks is the descriptor DDPRUN_NODE_MEMORY_FD; under other launchers the node's first rank makes
// it and tells the others through the store at MASTER_ADDR:MASTER_PORT, waiting at most `timeout`.
// Ranks on several nodes find each other through that store, which whoever sets MASTER_ADDR runs.
// Where srun itself has started the ranks and MASTER_ADDR is not set, there is none: the ranks of
// one node use a local socket instead, and several nodes are an error.
// `recorder`: nullptr if this process has none yet; then the launcher's is attached.
// Throws Failure.
c10::intrusive_ptr<HostProcessGroup> InitProcessGroup(
    const Environment& environment,
    std::chrono::milliseconds timeout,
    std::shared_ptr<FlightRecorder> recorder = {});

}  // namespace ddprun::trainer

namespace ddprun {

// For a program of your own: the process group of all ranks, from the environment that ddprun,
// torchrun or srun has set. A collective, which may be called again, by all ranks. `timeout` is
// also that of every later collective of the group. From then on a crash prints a stack and an
// exception that nobody catches its text, as far as the program has no handlers of its own for them
// (crash_stack.h, last_words.h). Throws Failure. Names as torch.distributed's.
c10::intrusive_ptr<trainer::HostProcessGroup> init_process_group(
    std::chrono::milliseconds timeout = std::chrono::minutes(30));

// The job's store, which ddprun, torchrun or whoever else set MASTER_ADDR and MASTER_PORT serves:
// for what LibTorch makes from one. Other users of it keep to prefixes of their own, so take a
// c10d::PrefixStore on top. `timeout`: to connect, and of every later wait. Throws Failure.
c10::intrusive_ptr<c10d::Store> job_store(
    std::chrono::milliseconds timeout = std::chrono::minutes(5));

}  // namespace ddprun
