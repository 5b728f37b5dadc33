// mpirun of Open MPI and of MPICH: each of its processes is an agent with one worker.
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/text.h"
#include "launcher/cluster/cluster.h"

namespace ddprun::launcher {

namespace {

constexpr int kMaxProcesses = 1 << 16;

struct Names {
  const char* size;
  const char* rank;
  const char* local_size;
  const char* local_rank;
  const char* job;  // names the job on all of its hosts; "" if no variable does
};
constexpr Names kOpenMpi = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "PMIX_NAMESPACE"};
constexpr Names kMpich = {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", ""};

Result<std::optional<ClusterPlace>> FindPlace(const Environment& env, const Names& names) {
  DDPRUN_ASSIGN(const int64_t size, env.GetInt(names.size, 1, 1, kMaxProcesses));
  DDPRUN_ASSIGN(const int64_t rank, env.GetInt(names.rank, 0, 0, size - 1));
  DDPRUN_ASSIGN(const int64_t here, env.GetInt(names.local_size, 1, 1, size));
  DDPRUN_ASSIGN(const int64_t local, env.GetInt(names.local_rank, 0, 0, here - 1));
  const bool one_host = here == size;
  // On one host all processes have one parent.
  const std::string parent = one_host ? std::to_string(::getppid()) : "";
  const std::string job = env.GetOr(names.job, parent);
  ClusterPlace place{.started_by = "mpirun",
                     .agents = static_cast<int>(size),
                     .agent = static_cast<int>(rank),
                     .endpoint = {one_host ? "127.0.0.1" : "", PortOf("mpi." + job)},
                     .other_ports = PortsAfter("mpi." + job),
                     .run_id = "mpi." + MakePrintable(job),
                     .one_agent_a_host = "mpirun --map-by ppr:1:node",
                     .no_host_hint =
                         "Say where the first process runs: mpirun -x MASTER_ADDR=HOST "
                         "... (MPICH: -genv MASTER_ADDR HOST)"};
  if (here == 1) return std::optional(std::move(place));
  // The variables do not tell unequally many consecutive ranks from ranks dealt in turn.
  if ((rank - local) % here != 0) {
    return Error{.code = Code::kUsage,
                 .title = "PROCESSES DEALT TO THE HOSTS IN TURN",
                 .where = "rank " + std::to_string(rank),
                 .what = "mpirun has started process " + std::to_string(rank) + " as number " +
                         std::to_string(local) + " of " + std::to_string(here) +
                         " on its host; expected that each host has consecutive ranks, and as many "
                         "as the others.",
                 .hint =
                     "mpirun --map-by slot deals them so. For hosts with unequally many, without "
                     "mpirun:\n  ddprun --hostfile=FILE TARGET, where FILE has lines HOST "
                     "slots=N\nOr one agent a host: " +
                     place.one_agent_a_host + " ddprun --nproc_per_node=N ...",
                 .page = "processes-in-turn"};
  }
  place.share = HostShare{.first_local_rank = static_cast<int>(local),
                          .workers = static_cast<int>(here),
                          .host = static_cast<int>(rank - local),  // no other host has it
                          .hosts = static_cast<int>((size + here - 1) / here),
                          .threads = 0};
  return std::optional(std::move(place));
}

Result<std::optional<ClusterPlace>> FindMpirunPlace(const Environment& env) {
  for (const Names& names : {kOpenMpi, kMpich}) {
    if (env.Get(names.size) && env.Get(names.rank)) return FindPlace(env, names);
  }
  return std::optional<ClusterPlace>();
}

}  // namespace

const Cluster kMpirun = {"mpirun", FindMpirunPlace};

}  // namespace ddprun::launcher
