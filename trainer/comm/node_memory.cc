#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/sealed_memory.h"
#include "trainer/comm/connect_nodes.h"
#include "trainer/comm/share_file.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

namespace {

Result<UniqueFd> OpenMemoryOfPeer(const std::string& path) {
  Result<UniqueFd> file = OpenSealedMemory(path, kNodeMemorySeals);
  if (file) return file;
  Error error = file.error();
  error.where = "the node's shared memory, as its first rank named it in the store";
  error.hint = "The ranks of a node must run as one user and see each other's processes in /proc.";
  return error;
}

// Makes the memory on the node's first rank, and opens it on the others by a path in the store.
Result<UniqueFd> ExchangeMemory(const Environment& environment,
                                const RankInfo& info,
                                int generation,
                                rendezvous::TcpStore& store,
                                std::chrono::milliseconds timeout) {
  const rendezvous::Deadline deadline = rendezvous::DeadlineAfter(timeout);
  const std::string key = StoreKey(environment, "node_memory/" + std::to_string(generation) + "/" +
                                                    std::to_string(info.node_rank));
  if (info.local_rank == 0) {
    DDPRUN_ASSIGN(UniqueFd file, SharedRegion::CreateFile());
    const std::string path =
        "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file.get());
    DDPRUN_TRY(store.Set(key, path, deadline));
    // Keeps the descriptor open until all ranks have opened it.
    std::vector<std::string> opened;
    for (int local = 1; local < info.local_world_size; ++local) {
      opened.push_back(key + "/" + std::to_string(local));
    }
    DDPRUN_TRY(store.Wait(opened, deadline));
    return file;
  }
  DDPRUN_ASSIGN(const std::string path, store.Get(key, deadline));
  DDPRUN_ASSIGN(UniqueFd file, OpenMemoryOfPeer(path));
  DDPRUN_TRY(store.Set(key + "/" + std::to_string(info.local_rank), "opened", deadline));
  return file;
}

}  // namespace

std::string StoreKey(const Environment& environment, const std::string& name) {
  // Steps of srun without an agent may share a store.
  const auto step = environment.Get("SLURM_STEP_ID");
  const std::string own =
      step ? environment.GetOr("SLURM_JOB_ID", "") + "." + *step : std::string("none");
  return "ddprun/" + environment.GetOr("TORCHELASTIC_RUN_ID", own) + "/" +
         environment.GetOr("TORCHELASTIC_RESTART_COUNT", "0") + "/" + name;
}

Result<UniqueFd> NodeMemory(const Environment& environment,
                            const RankInfo& info,
                            int generation,
                            rendezvous::TcpStore* store,
                            std::chrono::milliseconds timeout) {
  DDPRUN_ASSIGN(const int64_t fd, environment.GetInt("DDPRUN_NODE_MEMORY_FD", -1, 0, 1 << 20));
  if (fd >= 0) {
    UniqueFd file(fcntl(static_cast<int>(fd), F_DUPFD_CLOEXEC, 0));
    if (file.valid()) return file;
    return SystemError(
        "using the node's shared memory, DDPRUN_NODE_MEMORY_FD=" + std::to_string(fd), errno);
  }
  if (info.local_world_size == 1) return SharedRegion::CreateFile();
  if (store != nullptr) return ExchangeMemory(environment, info, generation, *store, timeout);
  const std::string name = "ddprun." + std::to_string(getuid()) + "." +
                           environment.GetOr("SLURM_JOB_ID", "") + "." +
                           environment.GetOr("SLURM_STEP_ID", "") + "." +
                           std::to_string(info.node_rank) + "." + std::to_string(generation);
  return ShareFile(name, info.local_rank, info.local_world_size, timeout, SharedRegion::CreateFile);
}

}  // namespace ddprun::trainer
