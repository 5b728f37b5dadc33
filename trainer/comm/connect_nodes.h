// How the ranks of a job find what they share, whoever has started them: on one node memory, on
// several each other, through the job's store.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/unique_fd.h"
#include "rendezvous/store/tcp_store.h"
#include "trainer/comm/node_link.h"
#include "trainer/comm/rank_info.h"

namespace ddprun::trainer {

struct ConnectedNodes {
  GroupWire wire;
  std::vector<int> node_of_rank;
};

// A collective of all ranks. `generation`: as HostProcessGroup's. Loads UCX, so only after the last
// fork.
Result<ConnectedNodes> ConnectNodes(const Environment& environment,
                                    const RankInfo& info,
                                    int generation,
                                    rendezvous::TcpStore& store,
                                    std::chrono::nanoseconds spin,
                                    std::chrono::milliseconds timeout);

// UCX's names of the network devices to use: those in DDPRUN_NET_INTERFACE ("eth0,mlx5_0:1"); or
// else the interface with the address `towards_store`, which is on the way to the store, and all
// RDMA devices; none when that says nothing, for UCX to choose. `master`: MASTER_ADDR.
std::vector<std::string> NetworkDevices(const Environment& environment,
                                        const std::string& master,
                                        const std::string& towards_store);

// The memory that the ranks of one node share. A collective of the node's ranks. `generation`: as
// HostProcessGroup's; the file may be the same for all of them. `store`: the job's; nullptr where
// there is none (srun).
Result<UniqueFd> NodeMemory(const Environment& environment,
                            const RankInfo& info,
                            int generation,
                            rendezvous::TcpStore* store,
                            std::chrono::milliseconds timeout);

// "ddprun/<run>/<restart>/<name>": the store may be the same for all attempts of a job.
std::string StoreKey(const Environment& environment, const std::string& name);

}  // namespace ddprun::trainer
