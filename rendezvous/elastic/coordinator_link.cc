#include "rendezvous/elastic/coordinator_link.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <nlohmann/json.hpp>

#include "rendezvous/elastic/control_message.h"
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
// How long the coordinator's node waits until all nodes know how the job ended.
constexpr milliseconds kHearTimeout{1000};

}  // namespace

CoordinatorLink::CoordinatorLink(asio::io_context& io,
                                 const RendezvousOptions& options,
                                 Handlers handlers)
    : io_(io),
      options_(options),
      handlers_(std::move(handlers)),
      target_(options.endpoint),
      deadline_(io),
      pause_timer_(io),
      pause_(kFirstPause) {}

void CoordinatorLink::Stop() {
  stopped_ = true;
  EndSearch();
  resolve_.reset();
  connect_.reset();
  channel_.reset();
  coordinator_.reset();
  server_.reset();
}

void CoordinatorLink::Search() {
  searching_ = true;
  welcome_ = false;
  pause_ = kFirstPause;
  deadline_.expires_after(options_.rules.join_timeout);
  deadline_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->stopped_) self->OnDeadline();
  });
  Seek();
}

void CoordinatorLink::EndSearch() {
  searching_ = false;
  deadline_.cancel();
  pause_timer_.cancel();
}

// Resolves the endpoint's name before each attempt, because a name may get its address late.
void CoordinatorLink::Seek() {
  if (options_.is_host == false || hosting() || has_met_) return Connect();
  resolve_ = std::make_unique<AsyncResolve>(
      io_, target_.host, [self = shared_from_this()](Result<std::vector<asio::ip::address>> found) {
        if (self->stopped_) return;
        self->addresses_ = found.has_value() ? *std::move(found) : std::vector<asio::ip::address>();
        if (self->TryToHost()) self->Connect();
      });
}

// Hosts the coordinator if this node is its host. Returns false if the search has failed.
bool CoordinatorLink::TryToHost() {
  const bool ours = std::ranges::any_of(addresses_, IsOwnAddress);
  if (addresses_.empty() || !options_.is_host.value_or(ours)) return true;
  const auto own = OwnAddresses(target_.host, addresses_, options_.rules.max_nodes);
  auto server = ListenOnOwn(io_, own, target_.port);
  while (!server.has_value() && server.error().code == Code::kAddressInUse &&
         ports_tried_ < options_.other_ports.size() && TakeNextPort()) {
    server = ListenOnOwn(io_, own, target_.port);
  }
  if (!server.has_value()) {
    // Another agent on this machine hosts the coordinator.
    if (server.error().code == Code::kAddressInUse && !options_.is_host) return true;
    handlers_.on_failed(std::move(server).error());
    return false;
  }
  server_ = *std::move(server);
  target_ = {own.empty() ? "127.0.0.1" : own.front().to_string(), server_->port()};
  coordinator_ = std::make_unique<Coordinator>(
      io_, CoordinatorOptions{.run_id = options_.run_id, .close_timeout = options_.close_timeout});
  coordinator_->ServeOn(*server_);
  handlers_.on_warning(ExposureWarning(own, server_->port(), options_.gate.get()));
  server_->Protect({.gate = options_.gate, .on_refused = options_.on_progress});
  server_->OnExhausted([this](const Error& error) {
    if (options_.on_progress) options_.on_progress("warning: " + error.what + " " + error.hint);
  });
  server_->RefuseKeys("/torch.rendezvous.", [weak = weak_from_this()](const std::string& peer) {
    const auto self = weak.lock();
    if (!self || self->stopped_ || std::exchange(self->reported_mixed_, true)) return;
    if (!self->options_.on_progress) return;
    self->options_.on_progress("a torchrun node (" + peer +
                               ") was refused: mixed launchers need --rdzv_backend=static, or a "
                               "store of their own from `ddprun store`");
  });
  return true;
}

void CoordinatorLink::Connect() {
  if (!searching_) return;
  connect_ = std::make_unique<AsyncConnect>(io_, target_, options_.gate,
                                            [self = shared_from_this()](Result<UniqueFd> fd) {
                                              if (!self->stopped_) self->OnConnected(std::move(fd));
                                            });
}

void CoordinatorLink::OnConnected(Result<UniqueFd> fd) {
  if (!fd.has_value()) {
    if (fd.error().code == Code::kRendezvous) return OnOtherJob(fd.error());
    const std::string& address = fd.error().where;
    if (has_met_ && fd.error().what == ErrnoText(ECONNREFUSED)) {
      return handlers_.on_failed(CoordinatorLost(target_, fd.error().what));
    }
    if (!hosting() && !has_met_) TakeNextPort();
    return TryAgain((address.empty() ? "" : address + ": ") + fd.error().what);
  }
  welcome_ = false;
  // This object owns the channel, so the handlers cannot outlive the object.
  channel_ = std::make_unique<ControlChannel>(
      io_, ControlChannel::End::kNode, *std::move(fd), "",
      ControlChannel::Handlers{.on_message =
                                   [this](const json& message) {
                                     const auto self = shared_from_this();
                                     if (TextOf(message, "type") == "other_job") {
                                       return OnOtherJob(OtherJob(
                                           target_, TextOf(message, "run_id"), options_.run_id));
                                     }
                                     welcome_ = has_met_ = true;
                                     rejections_ = 0;
                                     handlers_.on_message(message);
                                   },
                               .on_closed = [this](const std::string& reason,
                                                   ChannelEnd how) { OnClosed(reason, how); }});
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
  handlers_.on_line("connected to " + ToString(target_) + ", which has not answered yet");
  channel_->StartKeepAlive(options_.keep_alive);
}

// Goes on with the next of the ports at which the coordinator may be. Returns false if there is
// only one.
bool CoordinatorLink::TakeNextPort() {
  const std::vector<uint16_t>& others = options_.other_ports;
  if (others.empty()) return false;
  ports_tried_ = (ports_tried_ + 1) % (others.size() + 1);
  target_.port = ports_tried_ == 0 ? options_.endpoint.port : others[ports_tried_ - 1];
  return true;
}

void CoordinatorLink::OnOtherJob(const Error& error) {
  channel_.reset();
  if (hosting() || !TakeNextPort()) return handlers_.on_failed(error);
  TryAgain(error.what);
}

void CoordinatorLink::TryAgain(const std::string& problem) {
  if (!searching_) return;
  problem_ = problem;
  handlers_.on_line("waiting for the rendezvous at " + ToString(options_.endpoint) + " (" +
                    problem + ")");
  pause_timer_.expires_after(pause_);
  pause_ = std::min(pause_ * 3 / 2 + milliseconds(1), kLongestPause);
  pause_timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->stopped_) self->Seek();
  });
}

void CoordinatorLink::OnClosed(const std::string& reason, ChannelEnd how) {
  const auto self = shared_from_this();  // a handler may destroy everything
  channel_.reset();
  const bool stranger = how == ChannelEnd::kStranger;
  const bool no_coordinator = !welcome_ && (stranger || ++rejections_ >= kMaxRejections);
  if (no_coordinator && !has_met_ && TakeNextPort()) return TryAgain(reason);
  if (no_coordinator) {
    return handlers_.on_failed(NotACoordinator(target_, reason));
  }
  handlers_.on_closed(reason, how);
}

// For missing nodes, the coordinator has the deadline.
void CoordinatorLink::OnDeadline() {
  if (!searching_ || welcome_) return;
  handlers_.on_failed(NoCoordinator(target_, problem_.empty() ? "no attempt has ended" : problem_,
                                    options_.rules.join_timeout, !addresses_.empty()));
}

void CoordinatorLink::Send(const json& message) {
  if (channel_ == nullptr) return;
  if (options_.on_debug) options_.on_debug("sent \"" + TextOf(message, "type") + "\"");
  channel_->Send(message);
}

void CoordinatorLink::AfterOthersHeard(std::function<void()> action) {
  if (!hosting()) return action();
  coordinator_->WhenAllHeard(kHearTimeout, [self = shared_from_this(), action = std::move(action)] {
    if (!self->stopped_) action();
  });
}

}  // namespace ddprun::rendezvous
