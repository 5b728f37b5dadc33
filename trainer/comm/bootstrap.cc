#include "trainer/comm/bootstrap.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include "base/failure.h"
#include "rendezvous/store/tcp_store.h"
#include "trainer/comm/share_file.h"

namespace ddprun::trainer {

namespace {

constexpr int64_t kMaxRanks = 1 << 20;

// Under the run id and the restart count: the store may be the same for all attempts of a job.
std::string MemoryKey(const Environment& environment) {
  return "ddprun/" + environment.GetOr("TORCHELASTIC_RUN_ID", "none") + "/" +
         environment.GetOr("TORCHELASTIC_RESTART_COUNT", "0") + "/node_memory";
}

Result<UniqueFd> OpenMemoryOfRankZero(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.valid()) return file;
  Error error = SystemError("opening the node's shared memory of rank 0, " + path, errno);
  error.hint = "The ranks of a node must run as one user and see each other's processes in /proc.";
  return error;
}

Result<UniqueFd> ExchangeMemory(const Environment& environment,
                                const RankInfo& info,
                                std::chrono::milliseconds timeout) {
  DDPRUN_ASSIGN(const int64_t port, environment.GetInt("MASTER_PORT", 0, 1, 65535));
  const rendezvous::HostPort server{environment.GetOr("MASTER_ADDR", "127.0.0.1"),
                                    static_cast<uint16_t>(port)};
  const rendezvous::Deadline deadline = rendezvous::DeadlineAfter(timeout);
  DDPRUN_ASSIGN(const auto store, rendezvous::TcpStore::Connect(server, deadline));
  const std::string key = MemoryKey(environment);
  if (info.rank == 0) {
    DDPRUN_ASSIGN(UniqueFd file, SharedRegion::CreateFile());
    const std::string path =
        "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file.get());
    DDPRUN_TRY(store->Set(key, path, deadline));
    // The descriptor must stay open until all have opened it.
    std::vector<std::string> opened;
    for (int rank = 1; rank < info.world_size; ++rank) {
      opened.push_back(key + "/" + std::to_string(rank));
    }
    DDPRUN_TRY(store->Wait(opened, deadline));
    return file;
  }
  DDPRUN_ASSIGN(const std::string path, store->Get(key, deadline));
  DDPRUN_ASSIGN(UniqueFd file, OpenMemoryOfRankZero(path));
  DDPRUN_TRY(store->Set(key + "/" + std::to_string(info.rank), "opened", deadline));
  return file;
}

// Started by srun itself. In a batch script SLURM_PROCID is there too; the step is not.
bool UnderSrun(const Environment& environment) {
  return !environment.Get("RANK") && environment.Get("SLURM_STEP_ID").has_value();
}

// The entry of `node` in SLURM's "2(x3),1": tasks per node, runs of equal numbers put together.
std::optional<int64_t> TasksOnNode(std::string_view text, int64_t node) {
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const size_t repeat = entry.find("(x");
    const std::optional<int64_t> tasks = ParseInt(entry.substr(0, repeat));
    std::optional<int64_t> nodes = 1;
    if (repeat != std::string_view::npos && entry.ends_with(')')) {
      nodes = ParseInt(entry.substr(repeat + 2, entry.size() - repeat - 3));
    }
    if (!tasks || !nodes) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

Result<RankInfo> RankInfoOfSrun(const Environment& environment) {
  RankInfo info;
  DDPRUN_ASSIGN(const int64_t world, environment.GetInt("SLURM_STEP_NUM_TASKS", 1, 1, kMaxRanks));
  DDPRUN_ASSIGN(const int64_t rank, environment.GetInt("SLURM_PROCID", 0, 0, world - 1));
  DDPRUN_ASSIGN(const int64_t node, environment.GetInt("SLURM_NODEID", 0, 0, kMaxRanks));
  const int64_t local_world =
      TasksOnNode(environment.GetOr("SLURM_STEP_TASKS_PER_NODE", ""), node).value_or(world);
  DDPRUN_ASSIGN(const int64_t local, environment.GetInt("SLURM_LOCALID", 0, 0, local_world - 1));
  info.rank = static_cast<int>(rank);
  info.world_size = static_cast<int>(world);
  info.local_rank = static_cast<int>(local);
  info.local_world_size = static_cast<int>(local_world);
  return info;
}

Result<UniqueFd> NodeMemory(const Environment& environment,
                            const RankInfo& info,
                            std::chrono::milliseconds timeout) {
  DDPRUN_ASSIGN(const int64_t fd, environment.GetInt("DDPRUN_NODE_MEMORY_FD", -1, 0, 1 << 20));
  if (fd >= 0) {
    UniqueFd file(fcntl(static_cast<int>(fd), F_DUPFD_CLOEXEC, 0));
    if (file.valid()) return file;
    return SystemError(
        "using the node's shared memory, DDPRUN_NODE_MEMORY_FD=" + std::to_string(fd), errno);
  }
  if (info.world_size == 1) return SharedRegion::CreateFile();
  if (environment.Get("MASTER_ADDR") || !UnderSrun(environment)) {
    return ExchangeMemory(environment, info, timeout);
  }
  // srun brings neither memory nor a store.
  const std::string name = "ddprun." + std::to_string(getuid()) + "." +
                           environment.GetOr("SLURM_JOB_ID", "") + "." +
                           environment.GetOr("SLURM_STEP_ID", "");
  return ShareFile(name, info.rank, info.world_size, timeout, SharedRegion::CreateFile);
}

}  // namespace

Result<RankInfo> ReadRankInfo(const Environment& environment) {
  if (UnderSrun(environment)) return RankInfoOfSrun(environment);
  RankInfo info;
  DDPRUN_ASSIGN(const int64_t world, environment.GetInt("WORLD_SIZE", 1, 1, kMaxRanks));
  DDPRUN_ASSIGN(const int64_t rank, environment.GetInt("RANK", 0, 0, world - 1));
  DDPRUN_ASSIGN(const int64_t local_world, environment.GetInt("LOCAL_WORLD_SIZE", world, 1, world));
  DDPRUN_ASSIGN(const int64_t local_rank,
                environment.GetInt("LOCAL_RANK", rank % local_world, 0, local_world - 1));
  info.rank = static_cast<int>(rank);
  info.world_size = static_cast<int>(world);
  info.local_rank = static_cast<int>(local_rank);
  info.local_world_size = static_cast<int>(local_world);
  return info;
}

std::shared_ptr<FlightRecorder> AttachFlightRecorder(const Environment& environment,
                                                     const RankInfo& rank) {
  const Result<int64_t> fd = environment.GetInt(kFlightRecorderVariable, -1, 0, 1 << 20);
  if (!fd || *fd < 0) return nullptr;
  const UniqueFd file(fcntl(static_cast<int>(*fd), F_DUPFD_CLOEXEC, 0));
  Result<std::unique_ptr<FlightRecorder>> recorder =
      FlightRecorder::Attach(file, rank.local_rank, rank.rank);
  return recorder ? *std::move(recorder) : nullptr;
}

c10::intrusive_ptr<HostProcessGroup> InitProcessGroup(const Environment& environment,
                                                      std::chrono::milliseconds timeout,
                                                      std::shared_ptr<FlightRecorder> recorder) {
  const RankInfo info = ValueOrThrow(ReadRankInfo(environment));
  if (info.world_size != info.local_world_size) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "MORE THAN ONE NODE",
                        .where = "rank " + std::to_string(info.rank),
                        .what = "This job has " + std::to_string(info.world_size) + " ranks, " +
                                std::to_string(info.local_world_size) +
                                " of them on this node; the process group for host memory "
                                "connects the ranks of one node only.",
                        .hint = "Start all ranks on one node (--nnodes=1).",
                        .page = "more-than-one-node"});
  }
  if (recorder == nullptr) recorder = AttachFlightRecorder(environment, info);
  const UniqueFd memory = ValueOrThrow(NodeMemory(environment, info, timeout));
  return HostProcessGroup::Create(memory, {.rank = info.rank,
                                           .size = info.world_size,
                                           .timeout = timeout,
                                           .recorder = std::move(recorder)});
}

}  // namespace ddprun::trainer

namespace ddprun {

c10::intrusive_ptr<trainer::HostProcessGroup> init_process_group(
    std::chrono::milliseconds timeout) {
  return trainer::InitProcessGroup(Environment::OfProcess(), timeout);
}

}  // namespace ddprun
