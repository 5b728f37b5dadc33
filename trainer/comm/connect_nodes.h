// How the ranks of a job on several nodes learn of each other: through the job's store.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/env.h"
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

}  // namespace ddprun::trainer
