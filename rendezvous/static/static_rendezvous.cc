#include "rendezvous/static/static_rendezvous.h"

#include <utility>

#include <asio/post.hpp>

#include "base/env.h"
#include "rendezvous/backends.h"
#include "rendezvous/join_text.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/store/wire.h"
#include "rendezvous/store_host.h"

namespace ddprun::rendezvous {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookUpPause{500};

Result<std::shared_ptr<Rendezvous>> Make(asio::io_context& io, RendezvousOptions options) {
  DDPRUN_TRY(CheckNodes(options));
  const int last = options.rules.max_nodes - 1;
  const int rank = options.node_rank.value_or(0);
  if (rank < 0 || rank > last) {
    return Error{.code = Code::kUsage,
                 .title = "BAD NODE RANK",
                 .where = "--node_rank",
                 .what = "--node_rank is " + std::to_string(rank) + "; with --nnodes=" +
                         std::to_string(last + 1) + " expected 0 to " + std::to_string(last) + ".",
                 .hint = "Give every node its own --node_rank, beginning with 0.",
                 .page = "node-rank"};
  }
  return Owned(std::make_shared<StaticRendezvous>(io, std::move(options)));
}

}  // namespace

const Backend kStaticBackend = {.name = "static",
                                .fixed = true,
                                .port = 29500,
                                .join_timeout = std::chrono::seconds(900),
                                .make = Make};

StaticRendezvous::StaticRendezvous(asio::io_context& io, RendezvousOptions options)
    : io_(io),
      options_(std::move(options)),
      nnodes_(options_.rules.max_nodes),
      node_rank_(options_.node_rank.value_or(0)),
      keys_(options_.run_id),
      identity_(MakeIdentity()),
      endpoint_(options_.endpoint),
      deadline_(io),
      progress_(io),
      ending_(io),
      spreading_(io) {}

void StaticRendezvous::Stop() {
  stopped_ = true;
  now_.on_joined = nullptr;
  now_.on_failure = nullptr;
  now_.on_reported = nullptr;
  now_.on_left = nullptr;
  deadline_.cancel();
  progress_.cancel();
  ending_.cancel();
  spreading_.cancel();
  // Moves them to locals, because their pending handlers hold this object until they are destroyed.
  const auto resolve = std::move(resolve_);
  const auto assigned_watch = std::move(now_.assigned_watch);
  const auto failure_watch = std::move(now_.failure_watch);
  const auto barrier = std::move(now_.barrier);
  const auto presence = std::move(presence_);
  const auto twin = std::move(twin_);
  const auto connection = std::move(connection_);
  const auto server = std::move(server_);
  const auto round_server = std::move(round_server_);
}

const StoreServer* StaticRendezvous::worker_store() const {
  return round_server_ != nullptr ? round_server_.get() : server_.get();
}

AsyncStore& StaticRendezvous::store() const {
  if (host()) return *server_;
  return *connection_;
}

void StaticRendezvous::After(asio::steady_timer& timer,
                             milliseconds time,
                             void (StaticRendezvous::*action)()) {
  timer.expires_after(time);
  timer.async_wait([self = shared_from_this(), action](const asio::error_code& error) {
    if (!error && !self->stopped_) (self.get()->*action)();
  });
}

void StaticRendezvous::Ask(Request request, std::function<void(const Reply&)> then) {
  store().Call(std::move(request), [self = shared_from_this(), round = round_,
                                    then = std::move(then)](Result<Reply> reply) {
    if (self->stopped_ || round != self->round_ || !self->now_.on_joined) return;
    if (!reply.has_value()) return self->FailJoin(std::move(reply).error());
    then(*reply);
  });
}

void StaticRendezvous::Tell(Request request) {
  store().Call(std::move(request), [](const Result<Reply>&) {});
}

void StaticRendezvous::WatchKey(const std::string& key,
                                std::unique_ptr<StoreWatch>& watch,
                                std::function<void(Result<std::string>)> then) {
  const auto guarded = [self = shared_from_this(), round = round_,
                        then = std::move(then)](Result<std::string> value) {
    if (!self->stopped_ && round == self->round_) then(std::move(value));
  };
  if (!host()) {
    watch = std::make_unique<StoreWatch>(io_, options_.endpoint,
                                         DeadlineAfter(options_.rules.join_timeout), key, guarded);
    return;
  }
  server_->Call(KeysRequest(Op::kWait, {key}), [this, key, guarded](const Result<Reply>&) {
    server_->Call(KeyRequest(Op::kGet, key), [guarded](Result<Reply> reply) {
      if (reply.has_value()) guarded(std::move(reply->values.front()));
    });
  });
}

void StaticRendezvous::Join(std::function<void(Result<Membership>)> done) {
  ++round_;
  if (now_.failure && now_.failure->kind == RoundEnd::Kind::kRestart) ++restart_count_;
  now_ = {};
  now_.on_joined = std::move(done);
  for (int node = 0; node < nnodes_; ++node) now_.missing.insert(node);
  ending_.cancel();
  spreading_.cancel();
  After(deadline_, options_.rules.join_timeout, &StaticRendezvous::OnDeadline);
  if (!alone()) After(progress_, options_.progress_interval, &StaticRendezvous::OnProgressTime);
  StartRound();
}

void StaticRendezvous::StartRound() {
  if (!host()) {
    if (connection_ == nullptr) {
      connection_ = std::make_unique<StoreConnection>(io_, options_.endpoint,
                                                      DeadlineAfter(options_.rules.join_timeout));
    }
    return Announce();
  }
  if (round_ > 0) {
    asio::post(io_, [self = shared_from_this()] {
      if (!self->stopped_) self->OpenStore();
    });
    return;
  }
  LookUpOwn();
}

void StaticRendezvous::LookUpOwn() {
  if (!now_.on_joined) return;
  resolve_ = std::make_unique<AsyncResolve>(
      io_, endpoint_.host,
      [self = shared_from_this()](const Result<std::vector<asio::ip::address>>& found) {
        if (self->stopped_) return;
        if (!found.has_value()) {
          // The name may become known. Until then the store must not listen on all addresses.
          self->Say("waiting for the name of node 0: " + found.error().what);
          return self->After(self->ending_, kLookUpPause, &StaticRendezvous::LookUpOwn);
        }
        self->addresses_ = OwnAddresses(self->endpoint_.host, *found, self->nnodes_);
        if (self->addresses_.empty()) {
          self->Say("listening on all addresses: " + self->endpoint_.host +
                    " is not known as an address of this machine");
        }
        self->OpenStore();
      });
}

// A single node replaces its store in every round, at the same port. Several nodes keep the first
// store for their agents, and the workers of later rounds get another one.
void StaticRendezvous::OpenStore() {
  const bool replace = alone() || round_ == 0;
  std::unique_ptr<StoreServer>& opened = replace ? server_ : round_server_;
  opened.reset();
  auto server = ListenOnOwn(io_, addresses_, replace ? options_.endpoint.port : uint16_t{0});
  if (!server.has_value()) {
    const bool taken = server.error().code == Code::kAddressInUse && !alone() && round_ == 0;
    return taken ? FailWithoutPort(server.error()) : FailJoin(std::move(server).error());
  }
  opened = *std::move(server);
  if (alone()) {
    return FinishJoin(
        AssignRanks(std::vector<RoleInfo>{{options_.role, 0, options_.local_world_size}})[0],
        opened->port());
  }
  if (round_ == 0) {
    hosted_by_ddprun_ = true;
    Say(ExposureWarning(addresses_, opened->port()));
    Tell(KeyRequest(Op::kSet, JobKeys::Host(), identity_));
    if (addresses_.empty()) LookForTwin();
    server_->OnAbandonedWait([self = shared_from_this()](const std::vector<std::string>& keys) {
      self->OnAbandoned(keys);
    });
  }
  Announce();
}

void StaticRendezvous::Announce() {
  if (round_ > 0) return EnterRound();
  Request init = KeyRequest(Op::kAdd, JobKeys::Init());
  init.number = 1;
  Ask(std::move(init), [](const Reply&) {});
  TakeRank();
}

void StaticRendezvous::EnterRound() {
  const int node = node_rank_;
  // This wait comes first, because node 0 notices by it when this node's agent dies.
  if (!host() && hosted_by_ddprun_ && presence_ == nullptr) {
    WatchKey(keys_.Present(node), presence_, [](const Result<std::string>&) {});
  }
  WatchKey(keys_.Failure(round_, node), now_.failure_watch,
           [this](const Result<std::string>& note) { OnFailureNote(note); });
  const RoleInfo info{options_.role, node, options_.local_world_size};
  Ask(KeyRequest(Op::kSet, keys_.RoleInfo(round_, node), ToJson(info)), [](const Reply&) {});
  WatchKey(keys_.AssignedRanks(round_, node), now_.assigned_watch,
           [this](const Result<std::string>& value) { OnAssigned(value); });
  if (!host()) return;
  if (lost_) return RefuseRound();
  for (int other = 0; other < nnodes_; ++other) AwaitNode(other);
}

void StaticRendezvous::AwaitNode(int node) {
  server_->Call(KeysRequest(Op::kWait, {keys_.RoleInfo(round_, node)}),
                [self = shared_from_this(), node, round = round_](const Result<Reply>&) {
                  if (round == self->round_) self->OnNodeJoined(node);
                });
}

void StaticRendezvous::OnNodeJoined(int node) {
  now_.missing.erase(node);
  if (now_.missing.empty() && now_.on_joined && !now_.assigned) AssignAll();
}

void StaticRendezvous::AssignAll() {
  now_.assigned = true;
  std::vector<std::string> keys;
  for (int node = 0; node < nnodes_; ++node) keys.push_back(keys_.RoleInfo(round_, node));
  Ask(KeysRequest(Op::kMultiGet, std::move(keys)),
      [this](const Reply& reply) { PublishRanks(reply); });
}

void StaticRendezvous::PublishRanks(const Reply& role_infos) {
  std::vector<RoleInfo> nodes;
  for (int node = 0; node < nnodes_; ++node) {
    const std::string& text = role_infos.values[static_cast<size_t>(node)];
    const auto info = ParseRoleInfo(text);
    if (!info) return FailJoin(BadPeerData(endpoint_, keys_.RoleInfo(round_, node), text));
    nodes.push_back(*info);
  }
  Request publish = KeysRequest(Op::kMultiSet, {});
  if (round_server_ != nullptr) {
    publish.keys.push_back(keys_.MasterPort(round_));
    publish.values.push_back(std::to_string(round_server_->port()));
  }
  const std::vector<AssignedRanks> assigned = AssignRanks(nodes);
  for (int node = 0; node < nnodes_; ++node) {
    publish.keys.push_back(keys_.AssignedRanks(round_, node));
    publish.values.push_back(ToJson(assigned[static_cast<size_t>(node)]));
  }
  Ask(std::move(publish), [](const Reply&) {});
}

void StaticRendezvous::OnAssigned(const Result<std::string>& value) {
  if (!now_.on_joined) return;
  if (!value.has_value()) return FailJoin(value.error());
  const auto ranks = ParseAssignedRanks(*value);
  if (!ranks) {
    const RoundEnd refused = ParseNote(*value);
    if (refused.node_rank >= 0) return FailJoin(NodeLost(refused.message));
    const std::string key = keys_.AssignedRanks(round_, node_rank_);
    return FailJoin(BadPeerData(endpoint_, key, *value));
  }
  if (round_ == 0) return FinishJoin(*ranks, endpoint_.port);
  Ask(KeyRequest(Op::kGet, keys_.MasterPort(round_)), [this, ranks](const Reply& reply) {
    const std::string& text = reply.values.front();
    const auto port = ParseInt(text);
    if (!port || *port < 1 || *port > 65535) {
      return FailJoin(BadPeerData(endpoint_, keys_.MasterPort(round_), text));
    }
    FinishJoin(*ranks, static_cast<uint16_t>(*port));
  });
}

void StaticRendezvous::FinishJoin(const AssignedRanks& ranks, uint16_t master_port) {
  deadline_.cancel();
  progress_.cancel();
  twin_.reset();
  const auto done = std::exchange(now_.on_joined, nullptr);
  if (!done) return;
  Membership membership;
  membership.round = round_;
  membership.restart_count = restart_count_;
  membership.node_rank = node_rank_;
  membership.nnodes = nnodes_;
  membership.base_rank = ranks.base_rank;
  membership.world_size = ranks.world_size;
  membership.role_base_rank = ranks.role_base_rank;
  membership.role_world_size = ranks.role_world_size;
  membership.master_addr = endpoint_.host;
  membership.master_port = master_port;
  done(std::move(membership));
}

void StaticRendezvous::FailJoin(Error error) {
  deadline_.cancel();
  progress_.cancel();
  if (const auto done = std::exchange(now_.on_joined, nullptr)) done(std::move(error));
}

void StaticRendezvous::FailForLostNode() {
  FailJoin(NodeLost(lost_->message));
}

void StaticRendezvous::OnDeadline() {
  if (host() && server_ == nullptr)
    return FailJoin(NoOwnName(endpoint_, options_.rules.join_timeout));
  // The connection has the same deadline. Its error says why it is not connected.
  if (connection_ != nullptr && !connection_->connected()) return;
  const std::string who = host() ? DescribeJoined(nnodes_, Missing()) : now_.who_is_there;
  Error error = NodesMissing(endpoint_, host(), who, options_.rules.join_timeout);
  if (!strangers_.empty()) error.what += "\nAnother job is here" + strangers_ + ".";
  FailJoin(std::move(error));
}

void StaticRendezvous::OnProgressTime() {
  After(progress_, options_.progress_interval, &StaticRendezvous::OnProgressTime);
  if (host()) {
    // There is no server yet while node 0 resolves the endpoint's name or asks who has the port.
    if (server_ != nullptr) SayWhoIsThere();
    return;
  }
  if (!connection_->connected()) {
    const std::string problem = connection_->last_problem();
    return Say("waiting for node 0 at " + ToString(endpoint_) +
               (problem.empty() ? "" : " (" + problem + ")"));
  }
  if (hosted_by_ddprun_) return AskWhoIsThere();
  if (!std::exchange(looking_, true)) CheckNode(0, {});
}

void StaticRendezvous::Say(const std::string& line) {
  if (line.empty() || line == now_.last_line || !options_.on_progress) return;
  now_.last_line = line;
  options_.on_progress(line);
}

}  // namespace ddprun::rendezvous
