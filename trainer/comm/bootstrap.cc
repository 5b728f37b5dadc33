#include "trainer/comm/bootstrap.h"

#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/failure.h"
#include "base/last_words.h"
#include "trainer/comm/c10d_store.h"
#include "trainer/comm/connect_nodes.h"
#include "trainer/comm/renewal.h"

namespace ddprun::trainer {

namespace {

using StorePtr = std::unique_ptr<rendezvous::TcpStore>;

Result<StorePtr> StoreOfJob(const Environment& environment, std::chrono::milliseconds timeout) {
  DDPRUN_ASSIGN(const int64_t port, environment.GetInt("MASTER_PORT", 0, 1, 65535));
  if (port == 0) {
    return Error{.code = Code::kUsage,
                 .title = "BAD ENVIRONMENT VARIABLE",
                 .where = "MASTER_PORT",
                 .what = "WORLD_SIZE is " + environment.GetOr("WORLD_SIZE", "1") +
                         ", but MASTER_ADDR and MASTER_PORT, at which the ranks could find each "
                         "other,\nare not set.",
                 .hint = "Start the program with ddprun --nproc_per_node=N, which sets them all.",
                 .page = "bad-environment-variable"};
  }
  return rendezvous::TcpStore::Connect(
      {environment.GetOr("MASTER_ADDR", "127.0.0.1"), static_cast<uint16_t>(port)},
      rendezvous::DeadlineAfter(timeout));
}

// Connects to the job's store. Returns nullptr if this group does not need a store, or if there is
// none (srun, one node).
Result<StorePtr> ConnectStore(const Environment& environment,
                              const RankInfo& info,
                              std::chrono::milliseconds timeout) {
  const bool one_node = info.local_world_size == info.world_size;
  const bool has_memory =
      info.local_world_size == 1 || environment.Get("DDPRUN_NODE_MEMORY_FD").has_value();
  if (one_node && has_memory) return StorePtr();
  if (!environment.Get("MASTER_ADDR") && IsUnderSrun(environment)) {
    if (one_node) return StorePtr();
    return Error{.code = Code::kUsage,
                 .title = "NO STORE FOR SEVERAL NODES",
                 .where = "rank " + std::to_string(info.rank),
                 .what =
                     "srun has started ranks on several nodes, and MASTER_ADDR and MASTER_PORT, "
                     "at which they could find each other, are not set.",
                 .hint = "Start ddprun with srun, which brings the nodes together: srun ddprun ...",
                 .page = "no-store-for-several-nodes"};
  }
  return StoreOfJob(environment, timeout);
}

using Check = HostProcessGroup::Options::Check;

// `generation` is HostProcessGroup::Options::generation. The exchange calls `check`, if there is
// one, while it waits.
Exchange ExchangeOver(rendezvous::TcpStore& store,
                      const Environment& environment,
                      int rank,
                      int generation,
                      std::chrono::milliseconds timeout,
                      const Check& check = nullptr) {
  static constexpr std::chrono::milliseconds kPoll{2};
  const std::string prefix = StoreKey(environment, "addresses/" + std::to_string(generation)) + "/";
  return [&store, rank, prefix, check, deadline = rendezvous::DeadlineAfter(timeout)](
             const std::string& subject, const std::vector<int>& ranks,
             const std::string& own) -> Result<std::vector<std::string>> {
    const auto key = [&](int of) { return prefix + subject + "/" + std::to_string(of); };
    DDPRUN_TRY(store.Set(key(rank), own, deadline));
    std::vector<std::string> keys;
    for (const int each : ranks) keys.push_back(key(each));
    while (check != nullptr) {
      DDPRUN_ASSIGN(const bool there, store.Check(keys, deadline));
      if (there || std::chrono::steady_clock::now() > deadline) break;
      check();
      std::this_thread::sleep_for(kPoll);
    }
    return store.MultiGet(keys, deadline);
  };
}

// Returns HostProcessGroup::Options::reconnect.
auto ReconnectOf(const Environment& environment,
                 const RankInfo& info,
                 std::chrono::milliseconds timeout) {
  return [environment, info, timeout](int generation, const Check& check) {
    const StorePtr store = ValueOrThrow(StoreOfJob(environment, timeout));
    const Exchange exchange =
        ExchangeOver(*store, environment, info.rank, generation, timeout, check);
    return ValueOrThrow(ConnectNodes(environment, info, store->LocalAddress(), exchange,
                                     SpinTime(info.local_world_size), ProbeTime()))
        .wire;
  };
}

}  // namespace

int FirstGeneration(const Environment& environment) {
  return static_cast<int>(ValueOrThrow(environment.GetInt("DDPRUN_GENERATION", 0, 0, 1 << 14)));
}

std::shared_ptr<FlightRecorder> AttachFlightRecorder(const Environment& environment,
                                                     const RankInfo& rank) {
  const Result<int64_t> fd = environment.GetInt(kFlightRecorderVariable, -1, 0, 1 << 20);
  const Result<int64_t> page =
      environment.GetInt(kFlightPageVariable, rank.local_rank, 0, INT32_MAX);
  if (!fd || *fd < 0 || !page) return nullptr;
  const UniqueFd file(fcntl(static_cast<int>(*fd), F_DUPFD_CLOEXEC, 0));
  Result<std::unique_ptr<FlightRecorder>> recorder =
      FlightRecorder::Attach(file, static_cast<int>(*page), rank.rank);
  return recorder ? *std::move(recorder) : nullptr;
}

c10::intrusive_ptr<HostProcessGroup> InitProcessGroup(const Environment& environment,
                                                      std::chrono::milliseconds timeout,
                                                      std::shared_ptr<FlightRecorder> recorder,
                                                      double link_gigabit) {
  // All ranks make their groups in one order, so that their numbers agree.
  static std::atomic<int> generations = FirstGeneration(environment);
  const int generation = generations++;
  const RankInfo info = ValueOrThrow(ReadRankInfo(environment));
  NameInStacks("rank " + std::to_string(info.rank));
  if (recorder == nullptr) recorder = AttachFlightRecorder(environment, info);
  const StorePtr store = ValueOrThrow(ConnectStore(environment, info, timeout));
  const UniqueFd memory =
      ValueOrThrow(NodeMemory(environment, info, generation, store.get(), timeout));
  HostProcessGroup::Options options{.rank = info.rank,
                                    .size = info.world_size,
                                    .timeout = timeout,
                                    .generation = generation,
                                    .recorder = std::move(recorder),
                                    .link_gigabit = link_gigabit};
  if (info.local_world_size != info.world_size) {
    const auto spin = SpinTime(info.local_world_size);
    Check check;
    ProbeTime probes(timeout);
    if (FirstGeneration(environment) > 0) {
      check = LossCheck(options);
      probes.reset();  // the first processes have probed
    }
    const Exchange exchange =
        ExchangeOver(*store, environment, info.rank, generation, timeout, check);
    ConnectedNodes nodes = ValueOrThrow(
        ConnectNodes(environment, info, store->LocalAddress(), exchange, spin, probes));
    options.reconnect = ReconnectOf(environment, info, timeout);
    options.wire = std::move(nodes.wire);
    options.node_of_rank = std::move(nodes.node_of_rank);
  }
  return HostProcessGroup::Create(memory, options);
}

}  // namespace ddprun::trainer

namespace ddprun {

c10::intrusive_ptr<HostProcessGroup> init_process_group(std::chrono::milliseconds timeout) {
  PrintStackOnCrash();
  ReportUncaughtExceptions();
  return trainer::InitProcessGroup(Environment::OfProcess(), timeout);
}

c10::intrusive_ptr<c10d::Store> job_store(std::chrono::milliseconds timeout) {
  return trainer::MakeC10dStore(
      ValueOrThrow(trainer::StoreOfJob(Environment::OfProcess(), timeout)), timeout);
}

}  // namespace ddprun
