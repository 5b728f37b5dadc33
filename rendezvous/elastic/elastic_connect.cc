// How a node finds the coordinator, or becomes its host.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <asio/post.hpp>
#include <nlohmann/json.hpp>

#include "rendezvous/elastic/control_message.h"
#include "rendezvous/elastic/elastic_rendezvous.h"
#include "rendezvous/elastic/elastic_text.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/store_host.h"

namespace ddprun::rendezvous {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{1000};
// After so many connections that ended without a message, no ddprun listens at the endpoint.
constexpr int kMaxRejections = 3;

}  // namespace

ElasticRendezvous::ElasticRendezvous(asio::io_context& io, RendezvousOptions options)
    : io_(io),
      options_(std::move(options)),
      target_(options_.endpoint),
      deadline_(io),
      pause_timer_(io),
      progress_(io),
      ending_(io),
      pause_(kFirstPause) {}

void ElasticRendezvous::FindCoordinator() {
  After(deadline_, options_.rules.join_timeout, &ElasticRendezvous::OnJoinTime);
  Seek();
}

// Resolves the endpoint's name before each attempt, because a name may get its address late.
void ElasticRendezvous::Seek() {
  if (options_.is_host == false || hosting()) return Connect();
  resolve_ = std::make_unique<AsyncResolve>(
      io_, target_.host, [self = shared_from_this()](Result<std::vector<asio::ip::address>> found) {
        if (!self->stopped_) self->OnResolved(std::move(found));
      });
}

void ElasticRendezvous::OnResolved(Result<std::vector<asio::ip::address>> found) {
  addresses_ = found.has_value() ? *std::move(found) : std::vector<asio::ip::address>();
  if (TryToHost()) Connect();
}

// Hosts the coordinator if this node is its host. Returns false if the join has failed.
bool ElasticRendezvous::TryToHost() {
  const bool ours = std::ranges::any_of(addresses_, IsOwnAddress);
  if (addresses_.empty() || !options_.is_host.value_or(ours)) return true;
  const auto own = OwnAddresses(target_.host, addresses_, options_.rules.max_nodes);
  auto server = ListenOnOwn(io_, own, target_.port);
  if (!server.has_value()) {
    // Another agent on this machine hosts the coordinator.
    if (server.error().code == Code::kAddressInUse && !options_.is_host) return true;
    FailJoin(std::move(server).error());
    return false;
  }
  server_ = *std::move(server);
  target_ = {own.empty() ? "127.0.0.1" : own.front().to_string(), server_->port()};
  coordinator_ = std::make_unique<Coordinator>(
      io_, CoordinatorOptions{.close_timeout = options_.close_timeout});
  coordinator_->ServeOn(*server_);
  WarnOnce(ExposureWarning(own, server_->port()));
  server_->RefuseKeys("/torch.rendezvous.", [self = weak_from_this()](const std::string& peer) {
    const auto node = self.lock();
    if (!node || std::exchange(node->told_mixed_, true) || !node->options_.on_progress) return;
    node->options_.on_progress("a torchrun node (" + peer +
                               ") was refused: mixed launchers need --rdzv_backend=static, or a "
                               "store of their own from `ddprun store`");
  });
  return true;
}

void ElasticRendezvous::Connect() {
  if (!on_joined_) return;
  connect_ = std::make_unique<AsyncConnect>(io_, target_,
                                            [self = shared_from_this()](Result<UniqueFd> fd) {
                                              if (!self->stopped_) self->OnConnected(std::move(fd));
                                            });
}

void ElasticRendezvous::OnConnected(Result<UniqueFd> fd) {
  if (!fd.has_value()) {
    const std::string& address = fd.error().where;
    return TryAgain((address.empty() ? "" : address + ": ") + fd.error().what);
  }
  welcome_ = false;
  // This object owns the channel, so the handlers cannot outlive the object.
  channel_ = std::make_unique<ControlChannel>(
      io_, ControlChannel::End::kNode, *std::move(fd), "",
      ControlChannel::Handlers{.on_message = [this](const json& message) { OnMessage(message); },
                               .on_closed = [this](const std::string& reason,
                                                   bool stranger) { OnClosed(reason, stranger); }});
  Hello hello;
  hello.run_id = options_.run_id;
  hello.requeues = options_.requeues;
  hello.rules = options_.rules;
  hello.node = {.host = HostName(),
                .pid = getpid(),
                .wished_rank = options_.node_rank,
                .local_world_size = options_.local_world_size,
                .role = options_.role};
  hello.keep_alive = options_.keep_alive;
  hello.local_addr = options_.local_addr;
  Send(ToJson(hello));
  Send({{"type", "join"}});
  Note("connected to " + ToString(target_) + ", which has not answered yet");
  channel_->StartKeepAlive(options_.keep_alive);
}

void ElasticRendezvous::TryAgain(const std::string& problem) {
  if (!on_joined_) return;
  problem_ = problem;
  Note("waiting for the rendezvous at " + ToString(target_) + " (" + problem + ")");
  pause_timer_.expires_after(pause_);
  pause_ = std::min(pause_ * 3 / 2 + milliseconds(1), kLongestPause);
  pause_timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->stopped_) self->Seek();
  });
}

void ElasticRendezvous::OnClosed(const std::string& reason, bool stranger) {
  const auto self = shared_from_this();  // a handler may destroy everything
  channel_.reset();
  if (!welcome_ && (stranger || ++rejections_ >= kMaxRejections)) {
    return FailJoin(NotACoordinator(target_, reason));
  }
  const bool first_join = on_joined_ && attempt_ < 0;
  if (first_join && !hosting()) return TryAgain(reason);
  lost_ = CoordinatorLost(target_, reason);
  if (on_joined_) return FailJoin(*lost_);
  if (running_) {
    end_ = RoundEnd{.node_rank = -1,
                    .message = "the rendezvous at " + ToString(target_) + " is gone: " + reason};
  }
  EndAndReport();
}

// Ends the search for the coordinator. For missing nodes, the coordinator has the deadline.
void ElasticRendezvous::OnJoinTime() {
  if (on_joined_ && !welcome_) {
    FailJoin(NoCoordinator(target_, problem_.empty() ? "no attempt has ended" : problem_,
                           options_.rules.join_timeout, !addresses_.empty()));
  }
}

void ElasticRendezvous::OnProgressTime() {
  After(progress_, options_.progress_interval, &ElasticRendezvous::OnProgressTime);
  if (line_.empty() || line_ == said_line_ || !options_.on_progress) return;
  said_line_ = line_;
  options_.on_progress(line_);
}

void ElasticRendezvous::Note(const std::string& line) {
  line_ = line;
}

void ElasticRendezvous::WarnOnce(const std::string& line) {
  if (line.empty() || std::exchange(warned_, true) || !options_.on_progress) return;
  options_.on_progress(line);
}

}  // namespace ddprun::rendezvous
