#include "trainer/comm/bootstrap.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/failure.h"
#include "rendezvous/store/tcp_store.h"

namespace ddprun::trainer {

namespace {

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
  return ExchangeMemory(environment, info, timeout);
}

}  // namespace

Result<RankInfo> ReadRankInfo(const Environment& environment) {
  constexpr int64_t kMaxRanks = 1 << 20;
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
