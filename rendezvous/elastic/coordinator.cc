#include "rendezvous/elastic/coordinator.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "rendezvous/elastic/control_channel.h"
#include "rendezvous/elastic/control_message.h"
#include "rendezvous/elastic/elastic_text.h"
#include "rendezvous/elastic/leadership.h"
#include "rendezvous/elastic/round_state.h"
#include "rendezvous/elastic/store_place.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// The most connections that have not sent their hello yet.
constexpr size_t kMaxStrangers = 4096;

}  // namespace

class Coordinator::Impl : public std::enable_shared_from_this<Coordinator::Impl> {
 public:
  Impl(asio::io_context& io, CoordinatorOptions options)
      : io_(io),
        options_(std::move(options)),
        voter_(RandomId(), Clock::now()),
        timer_(io),
        hearing_(io) {}

  void Stop() {
    stopped_ = true;
    leads_ = nullptr;
    on_heard_ = nullptr;
    peers_.clear();
    strangers_ = owing_ = 0;
    jobs_.clear();
    timer_.cancel();
    hearing_.cancel();
  }

  void Accept(UniqueFd fd, std::string received) {
    if (stopped_ || num_strangers() >= kMaxStrangers) return;
    const NodeId id = ++last_id_;
    Peer& peer = peers_[id];
    ++strangers_;
    peer.since = Clock::now();
    // This object owns the channel, so the handlers cannot outlive the object.
    peer.channel = std::make_unique<ControlChannel>(
        io_, ControlChannel::End::kCoordinator, std::move(fd), std::move(received),
        ControlChannel::Handlers{
            .on_message = [this, id](const json& message) { OnMessage(id, message); },
            .on_closed = [this, id](const std::string& reason,
                                    ChannelEnd how) { OnClosed(id, reason, how); }});
    ArmTimer();
  }

  void WhenAllHeard(milliseconds timeout, std::function<void()> handler) {
    on_heard_ = std::move(handler);
    hearing_.expires_after(AllHeard() ? milliseconds(0) : timeout);
    hearing_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->Heard();
    });
  }

  void Lead(std::function<bool()> leads, ElectionTime others_stopped) {
    if (leads == nullptr) StepDown();
    leads_ = std::move(leads);
    others_stopped_ = others_stopped;
  }

  // An agent votes on its own job only, whose list of hosts all hosts must have.
  Vote OnBallot(const Ballot& ballot) {
    const bool is_own = ballot.job == ElectedJob(options_.run_id, options_.hosts);
    if (!options_.run_id.empty() && !is_own) return {};
    return voter_.OnBallot(ballot, Clock::now());
  }

  size_t num_connections() const { return peers_.size(); }
  size_t num_jobs() const { return jobs_.size(); }
  size_t num_nodes() const { return peers_.size() - num_strangers(); }

 private:
  struct Job {
    std::string run_id;
    int requeues;
    RoundState state;
    StorePlace place = {};
  };
  struct Peer {
    std::unique_ptr<ControlChannel> channel;
    std::optional<Hello> hello;
    std::shared_ptr<Job> job;  // set with the hello; keeps the job alive
    bool dismissed = false;    // refused; the node will close the connection
    bool owes_heard = false;   // set by Owe()
    Clock::time_point since;   // when the node connected or was refused
  };

  size_t num_strangers() const { return strangers_; }

  void Owe(Peer& peer, bool owes) {
    if (peer.owes_heard == owes) return;
    peer.owes_heard = owes;
    owes ? ++owing_ : --owing_;
  }

  // Before the peer is erased.
  void Forget(Peer& peer) {
    if (!peer.hello) --strangers_;
    Owe(peer, false);
  }

  void OnMessage(NodeId id, const json& message) {
    StepDownIfDeposed();
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    Peer& peer = found->second;
    if (peer.dismissed) return;
    const std::string type = TextOf(message, "type");
    if (!peer.hello && type == "ballot") {
      const auto ballot = BallotOf(message);
      return Dismiss(peer, ToJson(ballot ? OnBallot(*ballot) : Vote()));
    }
    if (!peer.hello) return OnHello(id, peer, message);
    if (type == "alive") return;
    if (type == "heard") {
      Owe(peer, false);
      if (AllHeard()) PostHeard();
      return;
    }
    const Sender sender{id, peer.hello->node, peer.job->place.address,
                        peer.hello->stop_time > milliseconds(0)};
    Dispatch(*peer.job, TakeMessage(peer.job->state, sender, message, Clock::now()));
    if (type == "withdraw") peer.channel->Send({{"type", "withdrawn"}});
    Tidy();
  }

  void OnHello(NodeId id, Peer& peer, const json& message) {
    auto hello = ParseHello(message);
    if (!hello.has_value()) {
      Error error = NotACoordinator({}, hello.error().what);
      error.title = "NODE REFUSED";
      error.where.clear();
      error.what = "The rendezvous refused this node: " + hello.error().what + ".";
      return Dismiss(peer, ToJson(RefuseJoin{error}));
    }
    if (!options_.run_id.empty() && hello->run_id != options_.run_id) {
      return Dismiss(peer, {{"type", "other_job"}, {"run_id", options_.run_id}});
    }
    if (!options_.run_id.empty() && hello->hosts != options_.hosts) {
      return Dismiss(peer, ToJson(RefuseJoin{HostsDisagree(options_.hosts, hello->hosts)}));
    }
    if (!hello->hosts.empty() && leads_ == nullptr) {
      const std::string job = ElectedJob(hello->run_id, hello->hosts);
      return Dismiss(peer, {{"type", "elsewhere"}, {"leader", voter_.LeaderOf(job, Clock::now())}});
    }
    std::shared_ptr<Job>& job = jobs_[hello->run_id];
    const bool started_anew = job && job->state.done() && hello->requeues > job->requeues;
    if (job == nullptr || IsForgotten(*job) || started_anew) {
      const auto stopped = hello->hosts.empty() ? ElectionTime() : others_stopped_;
      job = std::make_shared<Job>(
          Job{hello->run_id, hello->requeues, RoundState(hello->rules, stopped)});
    }
    if (const auto error = Disagreement(hello->rules, job->state.rules())) {
      return Dismiss(peer, ToJson(RefuseJoin{*error}));
    }
    peer.job = job;
    peer.hello = *std::move(hello);
    --strangers_;
    peer.channel->Send({{"type", "welcome"}, {"node", id}});
    peer.channel->StartKeepAlive(peer.hello->keep_alive);
  }

  void Dismiss(Peer& peer, const json& message) {
    peer.dismissed = true;
    peer.since = Clock::now();
    peer.channel->Send(message);
    ArmTimer();
  }

  // Closes the connections of all nodes whose jobs have several hosts.
  void StepDown() {
    leads_ = nullptr;
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      const bool led = peer->second.hello && !peer->second.hello->hosts.empty();
      if (led) Forget(peer->second);
      peer = led ? peers_.erase(peer) : std::next(peer);
    }
    if (AllHeard()) PostHeard();
    Tidy();
  }

  // Called before anything is done for a node, because a timer may be late.
  void StepDownIfDeposed() {
    if (leads_ != nullptr && !leads_()) StepDown();
  }

  void OnClosed(NodeId id, const std::string& reason, ChannelEnd how) {
    StepDownIfDeposed();
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    auto job = std::move(found->second.job);
    // A node that ends takes its workers with it.
    const bool may_run = job != nullptr && how == ChannelEnd::kSilent;
    const auto now = Clock::now();
    const auto stopped = may_run ? now + found->second.hello->stop_time : Clock::time_point();
    Forget(found->second);
    peers_.erase(found);
    if (AllHeard()) PostHeard();
    if (job == nullptr) return;
    Dispatch(*job, job->state.OnGone(id, reason, now, stopped));
    job.reset();
    Tidy();
  }

  void Log(const Job& job, const Actions& actions) const {
    // All nodes of a job get the same message, so one line is enough.
    std::string said;
    for (const Outgoing& outgoing : actions) {
      const std::string line = LogLine(outgoing, job.state.members().size());
      if (line.empty() || line == said) continue;
      said = line;
      options_.on_log("job " + job.run_id + ": " + line);
    }
  }

  void Dispatch(Job& job, const Actions& actions) {
    if (options_.on_log) Log(job, actions);
    for (const Outgoing& outgoing : actions) {
      const auto peer = peers_.find(outgoing.to);
      if (peer == peers_.end()) continue;
      if (IsResult(outgoing)) Owe(peer->second, true);
      if (const auto* open = std::get_if<OpenStore>(&outgoing.what)) {
        job.place = PlaceOfStore(job.state);
        peer->second.channel->Send(ToJson(*open, job.place));
        continue;
      }
      std::visit(
          [&](const auto& what) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(what)>, OpenStore>) {
              peer->second.channel->Send(ToJson(what));
            }
          },
          outgoing.what);
    }
  }

  StorePlace PlaceOfStore(const RoundState& state) const {
    std::vector<Connected> members;
    for (const NodeId id : state.members()) {
      const Peer& peer = peers_.at(id);
      members.push_back({peer.channel->peer(), peer.channel->own(), peer.hello->local_addr});
    }
    return ChooseStorePlace(members);
  }

  bool IsForgotten(const Job& job) const {
    return job.state.done() && Clock::now() >= job.state.done_since() + options_.close_timeout;
  }

  void ReportOtherJobs() {
    std::vector<WaitingJob> waiting;
    for (const auto& [run_id, job] : jobs_) {
      const int nodes = job->state.num_waiting();
      if (nodes > 0 && waiting.size() < kMostOtherJobs) waiting.push_back({run_id, nodes});
    }
    for (const auto& [run_id, job] : jobs_) {
      Dispatch(*job, job->state.OnOthers(OtherJobsText(waiting, run_id), Clock::now()));
    }
  }

  // Drops jobs that have no nodes, unless late nodes may still ask for the job's result.
  void Tidy() {
    std::erase_if(jobs_, [&](const auto& named) {
      const auto& [run_id, job] = named;
      return job.use_count() == 1 && (!job->state.done() || IsForgotten(*job));
    });
    ReportOtherJobs();
    ArmTimer();
  }

  void ArmTimer() {
    std::optional<Clock::time_point> next;
    const auto consider = [&](std::optional<Clock::time_point> time) {
      if (time) next = next ? std::min(*next, *time) : time;
    };
    for (const auto& [id, job] : jobs_) {
      consider(job->state.NextDeadline());
      if (job->state.done() && !IsForgotten(*job)) {
        consider(job->state.done_since() + options_.close_timeout);
      }
    }
    if (num_strangers() > 0) consider(Clock::now() + options_.handshake_timeout / 2);
    if (!next) {
      timer_.cancel();
      return;
    }
    timer_.expires_at(*next);
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error && !self->stopped_) self->OnTimer();
    });
  }

  void OnTimer() {
    StepDownIfDeposed();
    const auto now = Clock::now();
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      const bool late =
          !peer->second.hello && now - peer->second.since >= options_.handshake_timeout;
      if (late) Forget(peer->second);
      peer = late ? peers_.erase(peer) : std::next(peer);
    }
    for (auto& [id, job] : jobs_) Dispatch(*job, job->state.OnTime(now));
    Tidy();
  }

  bool AllHeard() const { return owing_ == 0; }

  void PostHeard() {
    if (!on_heard_) return;
    asio::post(io_, [self = shared_from_this()] {
      if (self->AllHeard()) self->Heard();
    });
  }

  void Heard() {
    hearing_.cancel();
    if (const auto handler = std::exchange(on_heard_, nullptr)) handler();
  }

  asio::io_context& io_;
  const CoordinatorOptions options_;
  std::map<NodeId, Peer> peers_;
  std::map<std::string, std::shared_ptr<Job>> jobs_;
  NodeId last_id_ = 0;
  size_t strangers_ = 0;         // peers that have not sent their hello
  size_t owing_ = 0;             // peers that owe a "heard"
  std::function<bool()> leads_;  // empty: jobs with several hosts are not served
  ElectionTime others_stopped_;
  Voter voter_;
  asio::steady_timer timer_;
  asio::steady_timer hearing_;
  std::function<void()> on_heard_;
  bool stopped_ = false;
};

Coordinator::Coordinator(asio::io_context& io, CoordinatorOptions options)
    : impl_(std::make_shared<Impl>(io, std::move(options))) {}

Coordinator::~Coordinator() {
  impl_->Stop();
}

void Coordinator::ServeOn(StoreServer& server) {
  server.OnForeignConnection(
      kControlPreamble.front(),
      [impl = std::weak_ptr(impl_)](UniqueFd fd, std::string received) {
        if (const auto alive = impl.lock()) alive->Accept(std::move(fd), std::move(received));
      },
      [impl = std::weak_ptr(impl_)] {
        const auto alive = impl.lock();
        return alive ? alive->num_connections() : 0;
      });
}

void Coordinator::WhenAllHeard(milliseconds timeout, std::function<void()> handler) {
  impl_->WhenAllHeard(timeout, std::move(handler));
}

void Coordinator::Lead(std::function<bool()> leads, ElectionTime others_stopped) {
  impl_->Lead(std::move(leads), others_stopped);
}

Vote Coordinator::OnBallot(const Ballot& ballot) {
  return impl_->OnBallot(ballot);
}

size_t Coordinator::num_jobs() const {
  return impl_->num_jobs();
}

size_t Coordinator::num_nodes() const {
  return impl_->num_nodes();
}

}  // namespace ddprun::rendezvous
