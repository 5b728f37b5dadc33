#include "rendezvous/elastic/coordinator_link.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <asio/post.hpp>
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

// Returns where the coordinator may be; there is at least one place.
std::vector<HostPort> PlacesOf(const RendezvousOptions& options) {
  if (!options.hosts.empty()) return options.hosts;
  std::vector<HostPort> places = {options.endpoint};
  for (const uint16_t port : options.other_ports) places.push_back({options.endpoint.host, port});
  return places;
}

}  // namespace

CoordinatorLink::CoordinatorLink(asio::io_context& io,
                                 const RendezvousOptions& options,
                                 Handlers handlers)
    : io_(io),
      options_(options),
      handlers_(std::move(handlers)),
      places_(PlacesOf(options)),
      target_(places_.front()),
      deadline_(io),
      pause_timer_(io),
      pause_(kFirstPause) {}

void CoordinatorLink::Stop() {
  stopped_ = true;
  EndSearch();
  resolve_.reset();
  connect_.reset();
  channel_.reset();
  leadership_.reset();
  coordinator_.reset();
  server_.reset();
}

void CoordinatorLink::Search(std::optional<Past> past, std::optional<int> node_rank) {
  past_ = past;
  wished_rank_ = node_rank ? node_rank : options_.node_rank;
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
  const bool may_host = options_.is_host != false && !hosting();
  if (!may_host || (has_several_hosts() ? places_tried_ >= places_.size() : has_met_)) {
    return Connect();
  }
  resolve_ = std::make_unique<AsyncResolve>(
      io_, target_.host, [self = shared_from_this()](Result<std::vector<asio::ip::address>> found) {
        if (self->stopped_) return;
        self->addresses_ = found.has_value() ? *std::move(found) : std::vector<asio::ip::address>();
        if (!self->TryToHost()) return;
        if (!self->has_several_hosts() || self->hosting()) return self->Connect();
        // Looks at all places first, because this node may be the host of a later one.
        ++self->places_tried_;
        self->TakeNextPlace();
        asio::post(self->io_, [self] {
          if (!self->stopped_) self->Seek();
        });
      });
}

// Hosts the coordinator if this node is its host. Returns false if the search has failed.
bool CoordinatorLink::TryToHost() {
  const bool ours = std::ranges::any_of(addresses_, IsOwnAddress);
  if (addresses_.empty() || !options_.is_host.value_or(ours)) return true;
  const auto own = OwnAddresses(target_.host, addresses_, options_.rules.max_nodes);
  auto server = ListenOnOwn(io_, own, target_.port);
  while (!server.has_value() && server.error().code == Code::kAddressInUse &&
         !has_several_hosts() && place_ + 1 < places_.size() && TakeNextPlace()) {
    server = ListenOnOwn(io_, own, target_.port);
  }
  if (!server.has_value()) {
    // Another agent on this machine hosts the coordinator.
    if (server.error().code == Code::kAddressInUse && !options_.is_host) return true;
    handlers_.on_failed(std::move(server).error());
    return false;
  }
  server_ = *std::move(server);
  coordinator_ = std::make_unique<Coordinator>(
      io_, CoordinatorOptions{.run_id = options_.run_id,
                              .hosts = HostsText(options_.hosts),
                              .close_timeout = options_.close_timeout});
  coordinator_->ServeOn(*server_);
  if (has_several_hosts()) Vote();
  target_ = {own.empty() ? "127.0.0.1" : own.front().to_string(), server_->port()};
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

// Takes part in the election of a leader, as the host of the current place.
void CoordinatorLink::Vote() {
  leadership_ = std::make_unique<Leadership>(
      io_, options_.hosts, options_.gate,
      Campaign::Rules{.job = ElectedJob(options_.run_id, HostsText(options_.hosts)),
                      .own = static_cast<int>(place_),
                      .hosts = static_cast<int>(options_.hosts.size()),
                      .lease = options_.keep_alive.limit(),
                      .process = RandomId()},
      Leadership::Handlers{
          .own_vote = [this](const Ballot& ballot) { return coordinator_->OnBallot(ballot); },
          .on_change = [this](bool leads) { leads ? BeginToLead() : EndToLead(); }});
}

void CoordinatorLink::BeginToLead() {
  ElectionTime others_stopped;
  if (!leadership_->is_first()) {
    // A node notices the loss of the leader before this one, after the time of a lease.
    others_stopped = std::chrono::steady_clock::now() + options_.stop_time();
    if (options_.on_progress) options_.on_progress("the rendezvous is led from here now");
  }
  coordinator_->Lead([this] { return leadership_->Leads(); }, others_stopped);
}

void CoordinatorLink::EndToLead() {
  if (options_.on_progress) {
    options_.on_progress(
        "warning: the rendezvous is led from here no longer: most of its hosts do not answer");
  }
  coordinator_->Lead(nullptr);
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
    if (!has_several_hosts() && has_met_ && fd.error().what == ErrnoText(ECONNREFUSED)) {
      return handlers_.on_failed(CoordinatorLost(target_, fd.error().what));
    }
    const std::string problem = (address.empty() ? "" : address + ": ") + fd.error().what;
    if (has_several_hosts() || (!hosting() && !has_met_)) TakeNextPlace();
    return TryAgain(problem);
  }
  welcome_ = false;
  // This object owns the channel, so the handlers cannot outlive the object.
  channel_ = std::make_unique<ControlChannel>(
      io_, ControlChannel::End::kNode, *std::move(fd), "",
      ControlChannel::Handlers{.on_message =
                                   [this](const json& message) {
                                     const auto self = shared_from_this();
                                     if (IsForLink(message)) return;
                                     welcome_ = has_met_ = true;
                                     rejections_ = 0;
                                     handlers_.on_message(message);
                                   },
                               .on_closed = [this](const std::string& reason,
                                                   ChannelEnd how) { OnClosed(reason, how); }});
  Introduce();
}

void CoordinatorLink::Introduce() {
  Hello hello;
  hello.run_id = options_.run_id;
  hello.requeues = options_.requeues;
  hello.rules = options_.rules;
  hello.node = {.host = HostName(),
                .pid = getpid(),
                .wished_rank = wished_rank_,
                .local_world_size = options_.local_world_size,
                .role = options_.role,
                .past = past_};
  hello.hosts = HostsText(options_.hosts);
  if (has_several_hosts()) hello.stop_time = options_.stop_time();
  hello.keep_alive = options_.keep_alive;
  hello.local_addr = options_.local_addr;
  Send(ToJson(hello));
  Send({{"type", "join"}});
  handlers_.on_line("connected to " + ToString(target_) + ", which has not answered yet");
  channel_->StartKeepAlive(options_.keep_alive);
}

// Goes on with the next of the places at which the coordinator may be. Returns false if there is
// only one.
bool CoordinatorLink::TakeNextPlace() {
  place_ = (place_ + 1) % places_.size();
  target_ = places_[place_];
  return places_.size() > 1;
}

// Handles a message that says that this is the wrong place.
bool CoordinatorLink::IsForLink(const json& message) {
  const std::string type = TextOf(message, "type");
  if (type == "other_job") {
    OnOtherJob(OtherJob(target_, TextOf(message, "run_id"), options_.run_id));
  } else if (type == "elsewhere") {
    OnElsewhere(SmallOf(message, "leader"));
  } else {
    return false;
  }
  return true;
}

void CoordinatorLink::OnOtherJob(const Error& error) {
  channel_.reset();
  if (hosting() || !TakeNextPlace()) return handlers_.on_failed(error);
  TryAgain(error.what);
}

// `leader` is -1 if that host knows none.
void CoordinatorLink::OnElsewhere(int leader) {
  channel_.reset();
  const bool known = 0 <= leader && leader < static_cast<int>(places_.size());
  const std::string problem = ToString(target_) + " does not lead";
  if (known) {
    place_ = static_cast<size_t>(leader);
    target_ = places_[place_];
  } else {
    TakeNextPlace();
  }
  TryAgain(problem + (known ? ", " + ToString(target_) + " does" : ": no leader is elected yet"));
}

void CoordinatorLink::TryAgain(const std::string& problem) {
  if (!searching_) return;
  problem_ = problem;
  // With several hosts the problem changes with each of them.
  handlers_.on_line(has_several_hosts() ? "looking for a leader among " + HostsText(options_.hosts)
                                        : "waiting for the rendezvous at " +
                                              ToString(options_.endpoint) + " (" + problem + ")");
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
  if (has_several_hosts() && !welcome_) {
    const std::string problem = ToString(target_) + ": " + reason;
    TakeNextPlace();
    return TryAgain(problem);
  }
  const bool no_coordinator = !welcome_ && (stranger || ++rejections_ >= kMaxRejections);
  if (no_coordinator && !has_met_ && TakeNextPlace()) return TryAgain(reason);
  if (no_coordinator) {
    return handlers_.on_failed(NotACoordinator(target_, reason));
  }
  handlers_.on_closed(reason, how);
}

// For missing nodes, the coordinator has the deadline.
void CoordinatorLink::OnDeadline() {
  if (!searching_ || welcome_) return;
  if (has_several_hosts()) {
    return handlers_.on_failed(
        NoLeader(HostsText(options_.hosts), problem_, options_.rules.join_timeout));
  }
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
