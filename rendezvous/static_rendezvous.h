// Rendezvous of nodes that know their number and their rank, wire-compatible with torchrun's
// static backend (torch 2.11): ddprun and torchrun nodes can be in one job, whoever is node 0.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "rendezvous/net/address.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::rendezvous {

class StoreServer;

struct StaticOptions {
  std::string run_id = "none";  // torchrun's default, part of the keys
  int nnodes = 1;
  int node_rank = 0;
  int local_world_size = 1;
  std::string role = "default";
  // MASTER_ADDR and MASTER_PORT. For one node the host may be empty (loopback) and the port 0
  // (a free one).
  HostPort endpoint;
  std::chrono::milliseconds join_timeout{900'000};  // torchrun's default
  // One line about the wait, such as "2 of 4 nodes joined, missing: 2, 3". May be empty.
  std::function<void(const std::string& line)> on_progress;
  // First line after this, then at most one per interval and only when it says something new.
  std::chrono::milliseconds progress_interval{3'000};
};

// Node 0 hosts the store on the endpoint's own address (on all addresses when the endpoint is not
// one of this machine's, or when its name means loopback only here). One node needs no exchange:
// Join only opens the port. Every round after the first gets a fresh store on a free port.
// kRestart needs ddprun on all nodes: next to torchrun nodes it becomes kJobFailed, of which the
// node that asked hears by WatchRound. A node that is gone fails the job.
class StaticRendezvous : public Rendezvous {
 public:
  // kUsage when the options contradict each other (page "node-rank", "endpoint").
  static Result<std::unique_ptr<StaticRendezvous>> Create(asio::io_context& io,
                                                          StaticOptions options);
  ~StaticRendezvous() override;

  void Join(std::function<void(Result<Membership>)> done) override;
  void WatchRound(std::function<void(RoundEnd)> handler) override;
  void EndRound(RoundEnd::Kind kind,
                const std::string& message,
                std::function<void()> done) override;
  void Withdraw(const std::string& message, std::function<void()> done) override;
  void Leave(std::function<void(Status)> done) override;
  bool may_go() const override;
  const StoreServer* worker_store() const override;

 private:
  class Impl;
  explicit StaticRendezvous(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
