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
#include "rendezvous/static/job_keys.h"
#include "rendezvous/net/async_resolve.h"
#include "rendezvous/static/static_round.h"
#include "rendezvous/store/store_connection.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

// Pending handlers hold this object, so its owner must call Stop(). static_rendezvous.cc has the
// join, static_rendezvous_others.cc finds out who else is at the store's port, and
// static_rendezvous_end.cc ends a round.
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
  // Sends a request of the join. If the answer is an Error, the join fails with it.
  void Ask(Request request, std::function<void(const Reply&)> then);
  // Sends a request and ignores the answer.
  void Tell(Request request);
  // Calls `then` with the key's value when the key is set. On nodes other than 0, calls it with an
  // Error if the store is lost.
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
  std::unique_ptr<StoreServer> round_server_;    // on node 0: the workers' store of later rounds
  std::unique_ptr<StoreConnection> connection_;  // on the other nodes: to node 0's store
  std::unique_ptr<StoreConnection> twin_;        // on node 0: asks who else hosts a store
  std::unique_ptr<StoreWatch> presence_;         // on the other nodes: see JobKeys::Present()
  asio::steady_timer deadline_;
  asio::steady_timer progress_;
  // Used by LookUpOwn(), by EndRound(), and if the store is lost while this node leaves.
  asio::steady_timer ending_;
  asio::steady_timer spreading_;
  bool stopped_ = false;
  bool hosted_by_ddprun_ = false;

  int restart_count_ = 0;         // rounds that ended with a restart
  std::optional<RoundEnd> lost_;  // on node 0: a node is lost, so no round can follow

  int round_ = -1;
  std::string strangers_;  // on node 0: text about a node of another job
  // CheckNode() asks for one node after the other. False only while no look is under way and it is
  // known that torchrun hosts the store.
  bool looking_ = true;
  std::set<int> unheard_;  // on node 0: nodes that have not read the failure yet
  StaticRound now_;
};

}  // namespace ddprun::rendezvous
