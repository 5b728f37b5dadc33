// Internal to kElasticBackend: a node of a c10d job, on the event loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json_fwd.hpp>

#include "rendezvous/elastic/coordinator_link.h"
#include "rendezvous/net/async_resolve.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/rendezvous_options.h"
#include "rendezvous/store/store_connection.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

// Does in each round what the coordinator's messages say. Pending handlers hold this object, so its
// owner must call Stop().
class ElasticRendezvous final : public Rendezvous,
                                public std::enable_shared_from_this<ElasticRendezvous> {
 public:
  ElasticRendezvous(asio::io_context& io, RendezvousOptions options);

  void Join(std::function<void(Result<Membership>)> done) override;
  void WatchRound(std::function<void(RoundEnd)> handler) override;
  void WhenNodeIsLost(const std::function<bool()>& can_go_on) override { can_go_on_ = can_go_on; }
  void EndRound(RoundEnd end, std::function<void()> done) override;
  void Withdraw(RoundEnd end, std::function<void()> done) override;
  void Leave(std::function<void(Status)> done) override;
  bool may_go() const override { return !link_->hosting() && round_server_ == nullptr; }
  const StoreServer* worker_store() const override { return round_server_.get(); }
  void Stop();

 private:
  void After(asio::steady_timer& timer,
             std::chrono::milliseconds time,
             void (ElasticRendezvous::*action)());
  // Returns `action` as a handler, which does nothing after Stop().
  std::function<void()> HandlerOf(void (ElasticRendezvous::*action)());
  void OnProgressTime();
  void WarnOnce(const std::string& line);

  // These handle the coordinator's messages.
  void OnMessage(const nlohmann::json& message);
  // Lets another node take this node's place if it has found a fault in itself.
  bool WithdrawIfUnfit(int64_t attempt);
  void OpenStore(const nlohmann::json& message);
  void ListenAt(const std::string& host,
                std::span<const asio::ip::address> addresses,
                bool only_here);
  void ReachStore(const nlohmann::json& message);
  void OnReached(const Result<Reply>& reply);
  void OnLostNode(const nlohmann::json& message);
  void OnRoundEnd(const nlohmann::json& message);
  void OnRefused(const nlohmann::json& message);
  void OnClosed(const std::string& reason, ChannelEnd how);
  // Returns whether the job may go on without this node, so that it can join again.
  bool may_join_again() const;
  // Returns whether the job ends with this node.
  bool ends_job() const { return link_->hosting() && !link_->has_several_hosts(); }
  // Looks for the coordinator, which has to take this node for a new one.
  void SearchAgain();
  void FinishJoin();
  void FailJoin(Error error);
  void FailWithRefusal();
  void DeliverEnd();
  void OnEnded();
  void EndAndReport();
  void FinishLeave();

  asio::io_context& io_;
  const RendezvousOptions options_;
  const std::shared_ptr<CoordinatorLink> link_;
  std::unique_ptr<AsyncResolve> resolve_;
  asio::steady_timer progress_;
  asio::steady_timer ending_;
  bool has_run_ = false;  // in a round
  bool warned_ = false;   // the user knows that other machines reach this node
  bool stopped_ = false;
  std::optional<Error> lost_;  // why the coordinator is lost
  bool cut_off_ = false;       // it may be found again
  std::string line_;           // the latest line about the wait, and the last that was reported
  std::string reported_line_;

  // State of the current round.
  int64_t attempt_ = -1;
  bool running_ = false;  // the round has started on this node and has not ended
  std::function<void(Result<Membership>)> on_joined_;
  Membership membership_;
  std::unique_ptr<StoreServer> round_server_;  // on the node of rank 0
  std::unique_ptr<StoreConnection> probe_;
  std::optional<Error> refusal_;
  std::function<void(RoundEnd)> on_end_;
  std::function<bool()> can_go_on_;
  std::optional<RoundEnd> end_;
  bool end_delivered_ = false;
  std::optional<RoundEnd::Kind> asked_end_;  // the kind that EndRound() got on this node
  std::function<void()> on_ended_;
  std::function<void(Status)> on_left_;
};

}  // namespace ddprun::rendezvous
