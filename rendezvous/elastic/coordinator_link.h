// Internal to kElasticBackend: how a node finds the coordinator, or becomes its host.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json_fwd.hpp>

#include "rendezvous/elastic/control_channel.h"
#include "rendezvous/elastic/coordinator.h"
#include "rendezvous/elastic/leadership.h"
#include "rendezvous/elastic/round_actions.h"
#include "rendezvous/net/async_connect.h"
#include "rendezvous/net/async_resolve.h"
#include "rendezvous/rendezvous_options.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

// Connects to the coordinator at the endpoint; hosts it if this node is its host. With several
// hosts, each hosts one, and the link connects to that of the leader. Pending handlers hold this
// object, so its owner must call Stop().
class CoordinatorLink : public std::enable_shared_from_this<CoordinatorLink> {
 public:
  // The link calls none after Stop(). They may destroy its owner.
  struct Handlers {
    std::function<void(const nlohmann::json& message)> on_message;
    std::function<void(Error error)> on_failed;  // ends the search
    std::function<void(const std::string& reason, ChannelEnd how)> on_closed;
    std::function<void(const std::string& line)> on_line;  // about the wait
    std::function<void(const std::string& line)> on_warning;
  };

  CoordinatorLink(asio::io_context& io, const RendezvousOptions& options, Handlers handlers);

  // Connects and joins a round. `past` is the last round of a coordinator that is lost, in which
  // this node had the rank `node_rank`. Tries again until the deadline of joins, or until
  // EndSearch(). With one host, once the link has had a connection, it searches the same
  // coordinator only, and no longer when the coordinator's host says that nobody listens.
  void Search(std::optional<Past> past = {}, std::optional<int> node_rank = {});
  // Searches on because the coordinator closed the connection.
  void TryAgain(const std::string& problem);
  void EndSearch();
  // Sends nothing if there is no connection.
  void Send(const nlohmann::json& message);
  // Calls `action` at once; if this node hosts the coordinator, when the other nodes know how the
  // job ended, because the coordinator ends with this node.
  void AfterOthersHeard(std::function<void()> action);
  void Stop();

  bool connected() const { return channel_ != nullptr; }
  bool hosting() const { return coordinator_ != nullptr; }
  // Returns whether the job outlives the loss of the coordinator.
  bool has_several_hosts() const { return !options_.hosts.empty(); }
  const HostPort& target() const { return target_; }  // where this node connects

 private:
  void Seek();
  bool TryToHost();
  void Vote();
  void BeginToLead();
  void EndToLead();
  void Connect();
  void Introduce();
  void OnConnected(Result<UniqueFd> fd);
  bool IsForLink(const nlohmann::json& message);
  // Looks at the next place, if there is one, because this one belongs to others.
  void OnOtherJob(const Error& error);
  void OnElsewhere(int leader);
  void OnClosed(const std::string& reason, ChannelEnd how);
  bool TakeNextPlace();
  void OnDeadline();

  asio::io_context& io_;
  const RendezvousOptions& options_;
  Handlers handlers_;
  const std::vector<HostPort> places_;  // where the coordinator may be
  size_t place_ = 0;                    // the number of the one that is tried
  HostPort target_;
  size_t places_tried_ = 0;  // to host there
  std::vector<asio::ip::address> addresses_;
  std::unique_ptr<AsyncResolve> resolve_;
  std::unique_ptr<StoreServer> server_;  // if this node hosts the coordinator
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Leadership> leadership_;  // with several hosts
  std::unique_ptr<AsyncConnect> connect_;
  std::unique_ptr<ControlChannel> channel_;
  asio::steady_timer deadline_;
  asio::steady_timer pause_timer_;
  std::chrono::milliseconds pause_;
  std::optional<Past> past_;
  std::optional<int> wished_rank_;
  std::string problem_;  // why there is no connection yet
  bool searching_ = false;
  int rejections_ = 0;           // connections that ended without a message
  bool welcome_ = false;         // the coordinator has sent a message over this connection
  bool has_met_ = false;         // the coordinator has sent a message
  bool reported_mixed_ = false;  // the user knows that a torchrun node was refused
  bool stopped_ = false;
};

}  // namespace ddprun::rendezvous
