#include "rendezvous/elastic/elastic_rendezvous.h"

#include <utility>

#include <asio/post.hpp>
#include <nlohmann/json.hpp>

#include "rendezvous/backends.h"
#include "rendezvous/elastic/control_message.h"
#include "rendezvous/elastic/elastic_text.h"
#include "rendezvous/join_text.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/store_host.h"

namespace ddprun::rendezvous {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// How long a node that ends a round or withdraws waits for the coordinator's answer.
constexpr milliseconds kReportTimeout{1500};

Result<std::shared_ptr<Rendezvous>> MakeElastic(asio::io_context& io, RendezvousOptions options) {
  DDPRUN_TRY(CheckNodes(options));
  return Owned(std::make_shared<ElasticRendezvous>(io, std::move(options)));
}

}  // namespace

const Backend kElasticBackend = {.name = "c10d",
                                 .fixed = false,
                                 .port = 29400,
                                 .join_timeout = std::chrono::seconds(600),
                                 .make = MakeElastic};

ElasticRendezvous::ElasticRendezvous(asio::io_context& io, RendezvousOptions options)
    : io_(io),
      options_(std::move(options)),
      link_(std::make_shared<CoordinatorLink>(
          io,
          options_,
          CoordinatorLink::Handlers{
              .on_message = [this](const json& message) { OnMessage(message); },
              .on_failed = [this](Error error) { FailJoin(cut_off_ ? *lost_ : std::move(error)); },
              .on_closed = [this](const std::string& reason,
                                  ChannelEnd how) { OnClosed(reason, how); },
              .on_line = [this](const std::string& line) { line_ = line; },
              .on_warning = [this](const std::string& line) { WarnOnce(line); }})),
      progress_(io),
      ending_(io) {}

void ElasticRendezvous::Stop() {
  stopped_ = true;
  on_joined_ = nullptr;
  on_end_ = nullptr;
  can_go_on_ = nullptr;
  on_ended_ = nullptr;
  on_left_ = nullptr;
  progress_.cancel();
  ending_.cancel();
  link_->Stop();
  resolve_.reset();
  probe_.reset();
  round_server_.reset();
}

void ElasticRendezvous::After(asio::steady_timer& timer,
                              milliseconds time,
                              void (ElasticRendezvous::*action)()) {
  timer.expires_after(time);
  timer.async_wait([handler = HandlerOf(action)](const asio::error_code& error) {
    if (!error) handler();
  });
}

std::function<void()> ElasticRendezvous::HandlerOf(void (ElasticRendezvous::*action)()) {
  return [self = shared_from_this(), action] {
    if (!self->stopped_) (self.get()->*action)();
  };
}

void ElasticRendezvous::Join(std::function<void(Result<Membership>)> done) {
  on_joined_ = std::move(done);
  on_end_ = nullptr;
  can_go_on_ = nullptr;
  on_ended_ = nullptr;
  on_left_ = nullptr;
  end_.reset();
  asked_end_.reset();
  end_delivered_ = false;
  running_ = false;
  ending_.cancel();
  round_server_.reset();
  line_.clear();
  reported_line_.clear();
  After(progress_, options_.progress_interval, &ElasticRendezvous::OnProgressTime);
  if (cut_off_) {
    SearchAgain();
  } else if (lost_) {
    asio::post(io_, [self = shared_from_this()] { self->FailJoin(*self->lost_); });
  } else if (!link_->connected()) {
    link_->Search();
  } else {
    link_->Send({{"type", "join"}});
  }
}

void ElasticRendezvous::OnMessage(const json& message) {
  const auto self = shared_from_this();  // a handler may destroy everything
  const std::string type = TextOf(message, "type");
  if (options_.on_debug) options_.on_debug("the coordinator says \"" + type + "\"");
  if (type == "welcome") return line_.clear();
  if (type == "progress") {
    line_ = TextOf(message, "line");
    return;
  }
  const bool asked = type == "open" || type == "reach";
  if (asked && WithdrawIfUnfit(NumberOf(message, "attempt"))) return;
  if (type == "open") return OpenStore(message);
  if (type == "reach") return ReachStore(message);
  if (type == "refuse") return OnRefused(message);
  if (type == "withdrawn") return link_->AfterOthersHeard(HandlerOf(&ElasticRendezvous::OnEnded));
  if (NumberOf(message, "attempt") != attempt_) return;
  if (type == "start") return FinishJoin();
  if (type == "lost") return OnLostNode(message);
  if (type == "end") return OnRoundEnd(message);
  if (type != "all_left") return;
  running_ = false;
  link_->Send({{"type", "heard"}});
  link_->AfterOthersHeard(HandlerOf(&ElasticRendezvous::FinishLeave));
}

bool ElasticRendezvous::WithdrawIfUnfit(int64_t attempt) {
  if (has_run_ || options_.rules.spares == 0 || !options_.find_fault) return false;
  const std::string fault = options_.find_fault();
  if (fault.empty()) return false;
  json message =
      EndMessage("withdraw", attempt, {.message = HostName() + " is unfit to take part: " + fault});
  message["ends_job"] = ends_job();
  link_->Send(message);
  FailJoin(NodeIsUnfit(fault));
  return true;
}

void ElasticRendezvous::OpenStore(const json& message) {
  attempt_ = NumberOf(message, "attempt");
  // The probe looks for the store of an earlier attempt, which ends here.
  probe_.reset();
  const std::string host = TextOf(message, "address");
  const bool only_here = FlagOf(message, "loopback_only");
  resolve_ = std::make_unique<AsyncResolve>(
      io_, host,
      [self = shared_from_this(), host,
       only_here](const Result<std::vector<asio::ip::address>>& found) {
        if (self->stopped_) return;
        const auto none = std::vector<asio::ip::address>();
        self->ListenAt(host, found.has_value() ? *found : none, only_here);
      });
}

// Listens on the address by which other nodes and all workers reach this node. If the address is
// not this machine's, as behind a router or in a container, listens on all addresses.
void ElasticRendezvous::ListenAt(const std::string& host,
                                 std::span<const asio::ip::address> addresses,
                                 bool only_here) {
  const auto own = OwnAddresses(host, addresses, only_here ? 1 : options_.rules.max_nodes);
  auto server = ListenOnOwn(io_, own, 0);
  if (!server.has_value()) {
    return link_->Send(
        {{"type", "unreached"}, {"attempt", attempt_}, {"problem", server.error().what}});
  }
  round_server_ = *std::move(server);
  WarnOnce(ExposureWarning(own, round_server_->port(), options_.gate.get()));
  round_server_->Protect({.gate = options_.gate, .on_refused = options_.on_progress});
  link_->Send({{"type", "opened"}, {"attempt", attempt_}, {"port", round_server_->port()}});
}

void ElasticRendezvous::ReachStore(const json& message) {
  auto membership = MembershipOf(message);
  if (!membership)
    return FailJoin(NotACoordinator(link_->target(), "it gave ranks that make no sense"));
  membership_ = *std::move(membership);
  attempt_ = NumberOf(message, "attempt");
  if (membership_.node_rank != 0) round_server_.reset();
  resolve_.reset();
  probe_ = std::make_unique<StoreConnection>(
      io_, HostPort{membership_.master_addr, membership_.master_port}, options_.gate,
      DeadlineAfter(options_.reach_timeout));
  probe_->Call(Request(),
               [self = shared_from_this()](const Result<Reply>& reply) { self->OnReached(reply); });
}

void ElasticRendezvous::OnReached(const Result<Reply>& reply) {
  const std::string problem = probe_ == nullptr ? std::string() : probe_->last_problem();
  probe_.reset();
  if (reply.has_value()) return link_->Send({{"type", "reached"}, {"attempt", attempt_}});
  link_->Send({{"type", "unreached"},
               {"attempt", attempt_},
               {"problem", problem.empty() ? reply.error().what : problem}});
}

void ElasticRendezvous::FinishJoin() {
  const auto done = std::exchange(on_joined_, nullptr);
  if (!done) return;
  running_ = true;
  has_run_ = true;
  cut_off_ = false;
  lost_.reset();
  link_->EndSearch();
  progress_.cancel();
  done(membership_);
}

void ElasticRendezvous::FailJoin(Error error) {
  link_->EndSearch();
  progress_.cancel();
  if (error.code == Code::kNotNeeded && options_.on_progress) options_.on_progress(error.what);
  if (const auto done = std::exchange(on_joined_, nullptr)) done(std::move(error));
}

void ElasticRendezvous::OnRefused(const json& message) {
  refusal_ = RefusalOf(message);
  link_->Send({{"type", "heard"}});
  link_->AfterOthersHeard(HandlerOf(&ElasticRendezvous::FailWithRefusal));
}

void ElasticRendezvous::FailWithRefusal() {
  FailJoin(*refusal_);
}

bool ElasticRendezvous::may_join_again() const {
  const JobRules& rules = options_.rules;
  const bool may_leave = link_->has_several_hosts() || !link_->hosting();
  return may_leave &&
         (rules.elastic() || rules.spares > 0 || membership_.restart_count < rules.max_restarts);
}

void ElasticRendezvous::OnClosed(const std::string& reason, ChannelEnd how) {
  const auto self = shared_from_this();  // a handler may destroy everything
  const bool first_join = on_joined_ && attempt_ < 0;
  if (first_join && !link_->hosting()) return link_->TryAgain(reason);
  lost_ = CoordinatorLost(link_->target(), reason);
  const bool may_be_found = how == ChannelEnd::kSilent || link_->has_several_hosts();
  const bool never_ran = !has_run_ && link_->has_several_hosts();
  cut_off_ = may_be_found && (never_ran || may_join_again());
  if (on_joined_ && cut_off_) return SearchAgain();
  if (on_joined_) return FailJoin(*lost_);
  if (running_) {
    end_ = RoundEnd{
        .kind = cut_off_ ? RoundEnd::Kind::kRegroup : RoundEnd::Kind::kJobFailed,
        .node_rank = -1,
        .message = "the rendezvous at " + ToString(link_->target()) + " is gone: " + reason};
  }
  // The handler gets an end once more that this node knows, because its workers may be stopping.
  const bool others_go_on = cut_off_ || link_->has_several_hosts();
  if (end_ && end_->kind != RoundEnd::Kind::kJobFailed && others_go_on) {
    end_->stop_within = options_.stop_timeout;
    end_delivered_ = false;
  }
  EndAndReport();
}

void ElasticRendezvous::SearchAgain() {
  attempt_ = -1;
  probe_.reset();
  round_server_.reset();
  if (!has_run_) return link_->Search();
  const bool restarts = end_ && end_->kind == RoundEnd::Kind::kRestart;
  link_->Search(Past{.rounds = membership_.round + 1,
                     .restarts = membership_.restart_count + (restarts ? 1 : 0),
                     .nodes = membership_.nnodes},
                link_->has_several_hosts() ? std::optional(membership_.node_rank) : std::nullopt);
}

void ElasticRendezvous::OnProgressTime() {
  After(progress_, options_.progress_interval, &ElasticRendezvous::OnProgressTime);
  if (line_.empty() || line_ == reported_line_ || !options_.on_progress) return;
  reported_line_ = line_;
  options_.on_progress(line_);
}

void ElasticRendezvous::WarnOnce(const std::string& line) {
  if (line.empty() || std::exchange(warned_, true) || !options_.on_progress) return;
  options_.on_progress(line);
}

void ElasticRendezvous::WatchRound(std::function<void(RoundEnd)> handler) {
  on_end_ = std::move(handler);
  asio::post(io_, HandlerOf(&ElasticRendezvous::DeliverEnd));
}

void ElasticRendezvous::OnLostNode(const json& message) {
  const bool goes_on = running_ && can_go_on_ && can_go_on_();
  if (goes_on && options_.on_progress) {
    options_.on_progress(TextOf(message, "loss") + "; the workers here wait for a spare");
  }
  link_->Send({{"type", "goes_on"}, {"attempt", attempt_}, {"yes", goes_on}});
}

void ElasticRendezvous::OnRoundEnd(const json& message) {
  if (!running_) return;
  running_ = false;
  end_ = RoundEndOf(message);
  if (end_->kind != RoundEnd::Kind::kJobFailed) return EndAndReport();
  link_->Send({{"type", "heard"}});
  link_->AfterOthersHeard(HandlerOf(&ElasticRendezvous::EndAndReport));
}

void ElasticRendezvous::EndAndReport() {
  const auto self = shared_from_this();  // the first handler may destroy everything
  DeliverEnd();
  OnEnded();
}

void ElasticRendezvous::DeliverEnd() {
  if (!end_ || end_delivered_ || !on_end_) return;
  end_delivered_ = true;
  const bool as_asked =
      end_->node_rank == membership_.node_rank && asked_end_ == end_->kind && !end_->stop_within;
  // Copies the handler, because it may destroy this object.
  const auto handler = on_end_;
  if (!as_asked) handler(*end_);
}

void ElasticRendezvous::EndRound(RoundEnd end, std::function<void()> done) {
  on_ended_ = std::move(done);
  asked_end_ = end.kind;
  if (!running_ && end_ && link_->hosting())
    return link_->AfterOthersHeard(HandlerOf(&ElasticRendezvous::EndAndReport));
  if (!running_ || !link_->connected())
    return asio::post(io_, HandlerOf(&ElasticRendezvous::EndAndReport));
  link_->Send(EndMessage("end", attempt_, end));
  After(ending_, kReportTimeout, &ElasticRendezvous::OnEnded);
}

void ElasticRendezvous::OnEnded() {
  ending_.cancel();
  if (const auto done = std::exchange(on_ended_, nullptr)) done();
}

void ElasticRendezvous::Withdraw(RoundEnd end, std::function<void()> done) {
  on_ended_ = std::move(done);
  on_joined_ = nullptr;
  link_->EndSearch();
  // A node that withdraws does not hear of its own end.
  on_end_ = nullptr;
  if (!link_->connected()) return asio::post(io_, HandlerOf(&ElasticRendezvous::OnEnded));
  json message = EndMessage("withdraw", attempt_, end);
  message["ends_job"] = ends_job();
  link_->Send(message);
  After(ending_, kReportTimeout, &ElasticRendezvous::OnEnded);
}

void ElasticRendezvous::Leave(std::function<void(Status)> done) {
  on_left_ = std::move(done);
  link_->Send({{"type", "leave"}, {"attempt", attempt_}});
}

void ElasticRendezvous::FinishLeave() {
  if (const auto done = std::exchange(on_left_, nullptr)) done({});
}

}  // namespace ddprun::rendezvous
