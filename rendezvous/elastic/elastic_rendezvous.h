// Internal to kElasticBackend: one node's side of the control connection, on the event loop.
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

#include "rendezvous/backend.h"
#include "rendezvous/elastic/control_channel.h"
#include "rendezvous/elastic/coordinator.h"
#include "rendezvous/net/async_connect.h"
#include "rendezvous/net/async_resolve.h"
#include "rendezvous/store/store_connection.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

// Pending handlers hold this object, so its owner must call Stop(). elastic_connect.cc finds the
// coordinator, elastic_rendezvous.cc has the rounds.
class ElasticRendezvous final : public Rendezvous,
                                public std::enable_shared_from_this<ElasticRendezvous> {
 public:
  ElasticRendezvous(asio::io_context& io, RendezvousOptions options);

  void Join(std::function<void(Result<Membership>)> done) override;
  void WatchRound(std::function<void(RoundEnd)> handler) override;
  void EndRound(RoundEnd end, std::function<void()> done) override;
  void Withdraw(RoundEnd end, std::function<void()> done) override;
  void Leave(std::function<void(Status)> done) override;
  bool may_go() const override { return !hosting() && round_server_ == nullptr; }
  const StoreServer* worker_store() const override { return round_server_.get(); }
  void Stop();

 private:
  bool hosting() const { return coordinator_ != nullptr; }
  void After(asio::steady_timer& timer,
             std::chrono::milliseconds time,
             void (ElasticRendezvous::*action)());
  void Post(void (ElasticRendezvous::*action)());

  // These find the coordinator or host it.
  void FindCoordinator();
  void Seek();
  void OnResolved(Result<std::vector<asio::ip::address>> found);
  bool TryToHost();
  void Connect();
  void OnConnected(Result<UniqueFd> fd);
  void TryAgain(const std::string& problem);
  void OnJoinTime();
  void OnProgressTime();
  void Note(const std::string& line);
  void WarnOnce(const std::string& line);

  // These handle the coordinator's messages.
  void OnMessage(const nlohmann::json& message);
  void OpenStore(const nlohmann::json& message);
  void ListenAt(const std::string& host,
                std::span<const asio::ip::address> addresses,
                bool only_here);
  void ReachStore(const nlohmann::json& message);
  void OnReached(const Result<Reply>& reply);
  void OnRoundEnd(const nlohmann::json& message);
  void OnRefused(const nlohmann::json& message);
  void OnClosed(const std::string& reason, bool stranger);
  // Calls `action`. If this node hosts the coordinator, first waits until the other nodes know how
  // the job ended, because the coordinator ends with this node.
  void AfterOthersHeard(void (ElasticRendezvous::*action)());

  void Send(const nlohmann::json& message);
  void FinishJoin();
  void FailJoin(Error error);
  void FailWithRefusal();
  void DeliverEnd();
  void OnEnded();
  void EndAndReport();
  void FinishLeave();

  asio::io_context& io_;
  const RendezvousOptions options_;
  HostPort target_;  // where this node connects to the coordinator
  std::vector<asio::ip::address> addresses_;
  std::unique_ptr<AsyncResolve> resolve_;
  std::unique_ptr<StoreServer> server_;  // if this node hosts the coordinator
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<AsyncConnect> connect_;
  std::unique_ptr<ControlChannel> channel_;
  asio::steady_timer deadline_;
  asio::steady_timer pause_timer_;
  asio::steady_timer progress_;
  asio::steady_timer ending_;
  std::chrono::milliseconds pause_;
  std::string problem_;      // why there is no connection yet
  int rejections_ = 0;       // connections that ended without a message
  bool welcome_ = false;     // the coordinator has sent a message
  bool told_mixed_ = false;  // the user knows that a torchrun node was refused
  bool warned_ = false;      // the user knows that other machines reach this node
  bool stopped_ = false;
  std::optional<Error> lost_;  // why the coordinator is lost
  std::string line_;           // the latest line about the wait, and the last that was reported
  std::string said_line_;

  // State of the current round.
  int64_t attempt_ = -1;
  bool running_ = false;  // the round has started on this node and has not ended
  std::function<void(Result<Membership>)> on_joined_;
  Membership membership_;
  std::unique_ptr<StoreServer> round_server_;  // on the node of rank 0
  std::unique_ptr<StoreConnection> probe_;
  std::optional<Error> refusal_;
  std::function<void(RoundEnd)> on_end_;
  std::optional<RoundEnd> end_;
  bool end_delivered_ = false;
  std::optional<RoundEnd::Kind> asked_end_;  // the kind that EndRound() got on this node
  std::function<void()> on_ended_;
  std::function<void(Status)> on_left_;
};

}  // namespace ddprun::rendezvous
