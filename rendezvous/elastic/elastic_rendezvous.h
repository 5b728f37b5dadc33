// Rendezvous of nodes whose number may change while the job runs: --rdzv_backend=c10d on nodes that
// all run ddprun. The protocol between them is ddprun's own (control_message.h), not torchrun's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "rendezvous/elastic/control_channel.h"
#include "rendezvous/elastic/round_actions.h"
#include "rendezvous/net/address.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::rendezvous {

struct ElasticOptions {
  std::string run_id = "none";
  JobRules rules;
  std::optional<int> wished_rank;  // --node_rank: see SeatNodes
  int local_world_size = 1;
  std::string role = "default";
  // Of the coordinator.
  HostPort endpoint;
  // Whether this node hosts the coordinator; unset: if the endpoint is an address of this machine
  // and nobody listens there yet.
  std::optional<bool> is_host;
  std::string local_addr;  // how the others reach this node; empty: the address they see
  std::chrono::milliseconds close_timeout{30'000};
  KeepAlive keep_alive;
  // To reach the round's store, which listens already, before the join is given up.
  std::chrono::milliseconds reach_timeout{10'000};
  // One line about the wait, such as "1 of 2 nodes joined". May be empty.
  std::function<void(const std::string& line)> on_progress;
  // A line for each message from and to the coordinator. May be empty.
  std::function<void(const std::string& line)> on_debug = {};
  // First line after this, then at most one per interval and only when it says something new.
  std::chrono::milliseconds progress_interval{3'000};
};

// A fresh store per round on the node of rank 0. When the coordinator's node goes, the job has
// failed on all others: host it apart (`ddprun store`) where that must not be. See Rendezvous.
class ElasticRendezvous : public Rendezvous {
 public:
  // kUsage (page "nnodes" or "endpoint") when the options make no sense.
  static Result<std::unique_ptr<ElasticRendezvous>> Create(asio::io_context& io,
                                                           ElasticOptions options);
  ~ElasticRendezvous() override;

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
  explicit ElasticRendezvous(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
