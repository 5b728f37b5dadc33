// From the environment that a launcher sets (ddprun, torchrun) to a process group.
#pragma once

#include <chrono>

#include "base/env.h"
#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {

// Where this process stands: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, or what srun says. A
// process started without a launcher is rank 0 of 1.
struct RankInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
};

// kUsage when a variable is no number, or the numbers contradict each other.
Result<RankInfo> ReadRankInfo(const Environment& environment);

// The flight recorder of the launcher (DDPRUN_FLIGHT_RECORDER_FD); nullptr when it gave none that
// can be used: it is a help, not a need. One per process.
std::shared_ptr<FlightRecorder> AttachFlightRecorder(const Environment& environment,
                                                     const RankInfo& rank);

// The process group of all ranks. A collective. Under ddprun the ranks' shared memory is the
// descriptor DDPRUN_NODE_MEMORY_FD; under other launchers rank 0 makes it and tells the others
// through the store at MASTER_ADDR:MASTER_PORT, under srun through a local socket, waiting at most
// `timeout`.
// `recorder`: nullptr if this process has none yet; then the launcher's is attached.
// Throws Failure, also when the ranks are not all on one node.
c10::intrusive_ptr<HostProcessGroup> InitProcessGroup(
    const Environment& environment,
    std::chrono::milliseconds timeout,
    std::shared_ptr<FlightRecorder> recorder = {});

}  // namespace ddprun::trainer

namespace ddprun {

// For a program of your own: the process group of all ranks, from the environment that ddprun,
// torchrun or srun has set. A collective. `timeout` is also that of every later collective.
// Throws Failure. Names as torch.distributed's.
c10::intrusive_ptr<trainer::HostProcessGroup> init_process_group(
    std::chrono::milliseconds timeout = std::chrono::minutes(30));

}  // namespace ddprun
