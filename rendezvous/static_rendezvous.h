// Internal to kStaticBackend: the exchange between the nodes, on the event loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/assign_ranks.h"
#include "rendezvous/backend.h"
#include "rendezvous/job_keys.h"
#include "rendezvous/net/async_resolve.h"
#include "rendezvous/static_round.h"
#include "rendezvous/store/store_connection.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

// Its handlers hold it, so Stop must be called. The join is in static_rendezvous.cc, who else is
// there in static_rendezvous_others.cc, the round's end in static_rendezvous_end.cc.
class StaticRendezvous final : public Rendezvous,
                               public std::enable_shared_from_this<StaticRendezvous> {
 public:
  StaticRendezvous(asio::io_context& io, RendezvousOptions options);

  void Join(std::function<void(Result<Membership>)> done) override;
  void WatchRound(std::function<void(RoundEnd)> handler) override;
  void EndRound(RoundEnd end, std::function<void()> done) override;
  void Withdraw(RoundEnd end, std::function<void()> done) override;
  void Leave(std::function<void(Status)> done) override;
  bool may_go() const override { return now_.leave_known && !host(); }
  const StoreServer* worker_store() const override;
  void Stop();

 private:
  bool alone() const { return nnodes_ == 1; }
  bool host() const { return node_rank_ == 0; }
  AsyncStore& store() const;
  void After(asio::steady_timer& timer,
             std::chrono::milliseconds time,
             void (StaticRendezvous::*action)());
  // A request of the join: its Error ends the join.
  void Ask(Request request, std::function<void(const Reply&)> then);
  // A request whose answer nobody waits for.
  void Tell(Request request);
  // Calls `then` with the key's value once it is there.
  void WatchKey(const std::string& key,
                std::unique_ptr<StoreWatch>& watch,
                std::function<void(Result<std::string>)> then);

  void StartRound();
  void LookUpOwn();
  void OpenStore();
  void Announce();
  void EnterRound();
  void AwaitNode(int node);
  void OnNodeJoined(int node);
  void AssignAll();
  void PublishRanks(const Reply& role_infos);
  void OnAssigned(const Result<std::string>& value);
  void FinishJoin(const AssignedRanks& ranks, uint16_t master_port);
  void FailJoin(Error error);
  void OnDeadline();
  void OnProgressTime();
  void AskWhoIsThere();
  void CheckNode(int node, std::vector<int> missing);
  void Say(const std::string& line);

  using HostHandler = std::function<void(const std::optional<std::string>& identity)>;
  std::string MakeIdentity() const;
  void TakeRank();
  void CheckHost();
  void AskWhoHosts(std::chrono::milliseconds timeout, HostHandler then);
  void LookForTwin();
  void FailWithoutPort(const Error& taken);
  void SayWhoIsThere();
  std::vector<int> Missing() const { return {now_.missing.begin(), now_.missing.end()}; }
  void OnFailureNote(const Result<std::string>& note);
  void DeliverFailure();
  void SpreadFailure(const std::string& note);
  void OnAbandoned(const std::vector<std::string>& keys);
  void OnNodeGone(int node);
  void OnNodeLost(int node, bool had_left);
  void RefuseRound();
  void FailForLostNode();
  void TellSeen();
  void PublishEnd(const RoundEnd& own, int round);
  void OnPublished(const Result<Reply>& reply);
  void OnReportTime();
  void OnNoEnd();
  void LoseRound(const std::string& why);
  void OnEndTold(int round);
  void AwaitSeen();
  void OnSpread();
  void OnReported();
  AsyncStore::Handler Guarded(std::function<void(const Result<Reply>&)> then);
  void EnterBarrier();
  void AwaitLast(AsyncStore& waiting);
  void FinishForAll();
  void OnAllFinished(const Status& finished);

  asio::io_context& io_;
  const RendezvousOptions options_;
  const int nnodes_;
  const int node_rank_;
  const JobKeys keys_;
  const std::string identity_;
  HostPort endpoint_;  // where workers find the first round's store
  std::vector<asio::ip::address> addresses_;
  std::unique_ptr<AsyncResolve> resolve_;
  std::unique_ptr<StoreServer> server_;          // on node 0
  std::unique_ptr<StoreServer> round_server_;    // on node 0, workers' store of later rounds
  std::unique_ptr<StoreConnection> connection_;  // elsewhere
  std::unique_ptr<StoreConnection> twin_;        // on node 0, to a second node 0
  std::unique_ptr<StoreWatch> presence_;         // of a later node, at node 0: over all rounds
  asio::steady_timer deadline_;
  asio::steady_timer progress_;
  asio::steady_timer ending_;  // of the look-up of the own name; of EndRound; of a store that goes
                               // away while leaving
  asio::steady_timer spreading_;
  bool stopped_ = false;
  bool hosted_by_ddprun_ = false;

  // How many rounds ended with a restart, and whether a node has gone: then no round can follow.
  int restart_count_ = 0;
  std::optional<RoundEnd> lost_;  // node 0 knows it

  int round_ = -1;
  std::string strangers_;  // nodes of another job, as text; node 0 knows it
  bool looking_ = false;   // a look at who is missing is under way
  std::set<int> unheard_;  // nodes that have not yet read the failure, while reporting it
  StaticRound now_;
};

}  // namespace ddprun::rendezvous
