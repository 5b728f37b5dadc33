// Connects the ranks of a job under any launcher: ranks of one node find their shared memory, ranks
// of several nodes find each other through the job's store.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/unique_fd.h"
#include "rendezvous/store/tcp_store.h"
#include "trainer/comm/exchange.h"
#include "trainer/comm/node_link.h"
#include "trainer/comm/rank_info.h"

namespace ddprun::trainer {

struct ConnectedNodes {
  GroupWire wire;
  std::vector<int> node_of_rank;
};

using ProbeTime = std::optional<std::chrono::milliseconds>;

// Exchanges the network addresses of all ranks. A collective of all ranks. `towards_store`: see
// NetworkDevices(). `probes`: how long to try the ways between the nodes; nullopt: not at all. It
// loads UCX: call it after the last fork.
Result<ConnectedNodes> ConnectNodes(const Environment& environment,
                                    const RankInfo& info,
                                    const std::string& towards_store,
                                    const Exchange& exchange,
                                    std::chrono::nanoseconds spin,
                                    ProbeTime probes);

// Returns UCX's names of the network devices to use: those in DDPRUN_NET_INTERFACE
// ("eth0,mlx5_0:1"). If the variable is not set, returns the interface with the address
// `towards_store`, which is this host's end of the connection to the store, and all RDMA devices.
// An empty list means that UCX chooses. `master` is MASTER_ADDR.
std::vector<std::string> NetworkDevices(const Environment& environment,
                                        const std::string& master,
                                        const std::string& towards_store);

// Returns this host's address on the way to `host`, which is a name or an address. Returns "" if
// there is no way.
std::string AddressTowards(const std::string& host);

// Returns the memory that the ranks of one node share. A collective of the node's ranks.
// `generation` is HostProcessGroup::Options::generation; several generations may get one file.
// `store` is the job's store; nullptr means that there is none (srun).
Result<UniqueFd> NodeMemory(const Environment& environment,
                            const RankInfo& info,
                            int generation,
                            rendezvous::TcpStore* store,
                            std::chrono::milliseconds timeout);

// Returns "ddprun/<run>/<restart>/<name>". The key names the attempt, because all attempts of a job
// may use one store.
std::string StoreKey(const Environment& environment, const std::string& name);

}  // namespace ddprun::trainer
