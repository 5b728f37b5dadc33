#include "rendezvous/static/static_rendezvous.h"

#include <utility>

#include "base/env.h"
#include "rendezvous/backends.h"
#include "rendezvous/join_text.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/rank_json.h"

namespace ddprun::rendezvous {

namespace {

Result<std::shared_ptr<Rendezvous>> Make(asio::io_context& io, RendezvousOptions options) {
  DDPRUN_TRY(CheckNodes(options));
  DDPRUN_TRY(CheckNodeRank(options));
  return Owned(std::make_shared<StaticRendezvous>(io, std::move(options)));
}

}  // namespace

const Backend kStaticBackend = {.name = "static",
                                .fixed = true,
                                .port = 29500,
                                .join_timeout = std::chrono::seconds(900),
                                .make = Make};

StaticRendezvous::StaticRendezvous(asio::io_context& io, RendezvousOptions options)
    : node_(io, std::move(options)) {}

// Drops the handlers of the round, and the timers and connections that it does not share with the
// next round.
void StaticRendezvous::Reset() {
  assigned_.reset();
  own_store_.Reset();
  barrier_.Reset();
  spread_.Reset();
  host_.Reset();
}

void StaticRendezvous::Stop() {
  node_.Stop();
  Reset();
  identity_.Reset();
  presence_.reset();
}

const StoreServer* StaticRendezvous::worker_store() const {
  return node_.round_server != nullptr ? node_.round_server.get() : node_.server.get();
}

void StaticRendezvous::Join(std::function<void(Result<Membership>)> done) {
  Reset();
  node_.BeginRound(weak_from_this(), std::move(done));
  join_watch_.Start();
  if (node_.is_host()) return own_store_.Open([this] { OnStoreOpen(); });
  if (node_.connection == nullptr)
    node_.connection = node_.Connect(node_.options.rules.join_timeout);
  Announce();
}

void StaticRendezvous::OnStoreOpen() {
  if (node_.alone()) {
    const RoleInfo self{node_.options.role, 0, node_.options.local_world_size};
    return FinishJoin(AssignRanks({&self, 1})[0], node_.server->port());
  }
  if (node_.round == 0) host_.WatchNodes();
  Announce();
}

void StaticRendezvous::Announce() {
  if (node_.round > 0) return EnterRound();
  Request init = KeyRequest(Op::kAdd, JobKeys::Init());
  init.number = 1;
  node_.Ask(std::move(init), [](const Reply&) {});
  identity_.ClaimRank([this] { EnterRound(); });
}

void StaticRendezvous::EnterRound() {
  const int rank = node_.rank;
  // This wait comes first, because node 0 notices by it when this node's agent dies.
  if (!node_.is_host() && *node_.hosted_by_ddprun && presence_ == nullptr) {
    node_.WatchKey(node_.keys.Present(rank), presence_, [](const Result<std::string>&) {});
  }
  spread_.Watch();
  const RoleInfo info{node_.options.role, rank, node_.options.local_world_size};
  node_.Ask(KeyRequest(Op::kSet, node_.keys.RoleInfo(node_.round, rank), ToJson(info)),
            [](const Reply&) {});
  node_.WatchKey(node_.keys.AssignedRanks(node_.round, rank), assigned_,
                 [this](const Result<std::string>& value) { OnAssigned(value); });
  if (node_.is_host()) host_.Gather();
}

void StaticRendezvous::OnAssigned(const Result<std::string>& value) {
  if (!node_.joining()) return;
  if (!value.has_value()) return node_.EndJoin(value.error());
  const HostPort& endpoint = node_.options.endpoint;
  const auto ranks = ParseAssignedRanks(*value);
  if (!ranks) {
    const RoundEnd refused = ParseNote(*value);
    if (refused.node_rank >= 0) return node_.EndJoin(NodeLost(refused.message));
    const std::string key = node_.keys.AssignedRanks(node_.round, node_.rank);
    return node_.EndJoin(BadPeerData(endpoint, key, *value));
  }
  if (node_.round == 0) return FinishJoin(*ranks, endpoint.port);
  const std::string key = node_.keys.MasterPort(node_.round);
  node_.Ask(KeyRequest(Op::kGet, key), [this, ranks, key](const Reply& reply) {
    const std::string& text = reply.values.front();
    const auto port = ParseInt(text);
    if (!port || *port < 1 || *port > 65535) {
      return node_.EndJoin(BadPeerData(node_.options.endpoint, key, text));
    }
    FinishJoin(*ranks, static_cast<uint16_t>(*port));
  });
}

void StaticRendezvous::FinishJoin(const AssignedRanks& ranks, uint16_t master_port) {
  identity_.Reset();
  node_.EndJoin(Membership{.round = node_.round,
                           .restart_count = spread_.restarts(),
                           .node_rank = node_.rank,
                           .nnodes = node_.nnodes,
                           .base_rank = ranks.base_rank,
                           .world_size = ranks.world_size,
                           .role_base_rank = ranks.role_base_rank,
                           .role_world_size = ranks.role_world_size,
                           .master_addr = node_.options.endpoint.host,
                           .master_port = master_port});
}

void StaticRendezvous::WatchRound(std::function<void(RoundEnd)> handler) {
  spread_.WatchRound(std::move(handler));
}

void StaticRendezvous::EndRound(RoundEnd end, std::function<void()> done) {
  spread_.EndRound(std::move(end), std::move(done));
}

// Fails the job, because a static job needs all of its nodes.
void StaticRendezvous::Withdraw(RoundEnd end, std::function<void()> done) {
  end.kind = RoundEnd::Kind::kJobFailed;
  spread_.EndRound(std::move(end), std::move(done));
}

void StaticRendezvous::Leave(std::function<void(Status)> done) {
  barrier_.Leave(std::move(done));
}

}  // namespace ddprun::rendezvous
