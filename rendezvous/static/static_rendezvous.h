// Internal to kStaticBackend: one node of a static job, on the event loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rendezvous/assign_ranks.h"
#include "rendezvous/static/exit_barrier.h"
#include "rendezvous/static/join_watch.h"
#include "rendezvous/static/node_identity.h"
#include "rendezvous/static/own_store.h"
#include "rendezvous/static/round_spread.h"
#include "rendezvous/static/static_host.h"
#include "rendezvous/static/static_node.h"

namespace ddprun::rendezvous {

// Joins rounds, and leaves the rest to its parts. Pending handlers hold this object, so its owner
// must call Stop().
class StaticRendezvous final : public Rendezvous,
                               public std::enable_shared_from_this<StaticRendezvous> {
 public:
  StaticRendezvous(asio::io_context& io, RendezvousOptions options);

  void Join(std::function<void(Result<Membership>)> done) override;
  void WatchRound(std::function<void(RoundEnd)> handler) override;
  void EndRound(RoundEnd end, std::function<void()> done) override;
  void Withdraw(RoundEnd end, std::function<void()> done) override;
  void Leave(std::function<void(Status)> done) override;
  bool may_go() const override { return barrier_.counted() && !node_.is_host(); }
  const StoreServer* worker_store() const override;
  void Stop();

 private:
  void Reset();
  void OnStoreOpen();
  void Announce();
  void EnterRound();
  void OnAssigned(const Result<std::string>& value);
  void FinishJoin(const AssignedRanks& ranks, uint16_t master_port);

  StaticNode node_;
  NodeIdentity identity_{node_};
  OwnStore own_store_{node_, identity_};
  ExitBarrier barrier_{node_};
  RoundSpread spread_{node_, barrier_};
  StaticHost host_{node_, barrier_};
  JoinWatch join_watch_{node_, host_};
  std::unique_ptr<StoreWatch> presence_;  // on the other nodes: see JobKeys::Present()
  std::unique_ptr<StoreWatch> assigned_;  // of this round's ranks
};

}  // namespace ddprun::rendezvous
