// A rendezvous with simulated nodes, which fail, come and go.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "rendezvous/rendezvous.h"
#include "tests/launcher/agent/simulated_processes.h"
#include "tests/launcher/agent/simulated_world.h"

namespace ddprun::launcher {

struct RendezvousChances {
  int error = 0;      // joining or leaving fails
  int peer_ends = 0;  // another node ends the round
};

class SimulatedRendezvous : public rendezvous::Rendezvous {
 public:
  using RoundEnd = rendezvous::RoundEnd;

  // Uses `processes` only to check which processes live.
  SimulatedRendezvous(World& world,
                      const SimulatedProcesses& processes,
                      RendezvousChances chances,
                      int nnodes,
                      int max_restarts);

  void Join(std::function<void(Result<rendezvous::Membership>)> done) override;
  void WatchRound(std::function<void(RoundEnd)> handler) override { handler_ = std::move(handler); }
  void EndRound(RoundEnd end, std::function<void()> done) override;
  void Withdraw(RoundEnd end, std::function<void()> done) override;
  void Leave(std::function<void(Status)> done) override;
  bool may_go() const override { return world_.left = world_.Chance(50); }
  const rendezvous::StoreServer* worker_store() const override { return nullptr; }

 private:
  bool alone() const { return nnodes_ == 1; }
  // World::After(), but does nothing after this object's end.
  void After(milliseconds time, std::function<void()> what);
  void PeerEnds();
  // A later message replaces it.
  std::function<void()> Telling(std::function<void()> done);

  World& world_;
  const SimulatedProcesses& processes_;
  const RendezvousChances chances_;
  const int nnodes_;
  const int max_restarts_;
  int round_ = 0;
  int restart_count_ = 0;
  int joins_ = 0;
  int telling_ = 0;
  bool joined_ = false;
  std::optional<RoundEnd> end_;
  std::function<void(RoundEnd)> handler_;
  std::function<void(Status)> on_left_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

// The exit code with which workers of other nodes fail.
constexpr int kPeerCode = 33;

}  // namespace ddprun::launcher
