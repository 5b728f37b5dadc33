#include "rendezvous/static/static_rendezvous.h"

#include <utility>

#include <asio/post.hpp>

#include "base/env.h"
#include "rendezvous/backends.h"
#include "rendezvous/join_text.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/store_host.h"

namespace ddprun::rendezvous {

namespace {

constexpr std::chrono::milliseconds kLookUpPause{500};

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
    : node_(io, std::move(options)), pause_(io) {}

// Drops the handlers of the round, and the timers and connections that it does not share with the
// next round.
void StaticRendezvous::Reset() {
  assigned_.reset();
  pause_.cancel();
  barrier_.Reset();
  spread_.Reset();
  host_.Reset();
}

void StaticRendezvous::Stop() {
  node_.Stop();
  Reset();
  identity_.Reset();
  resolve_.reset();
  presence_.reset();
}

const StoreServer* StaticRendezvous::worker_store() const {
  return node_.round_server != nullptr ? node_.round_server.get() : node_.server.get();
}

void StaticRendezvous::Join(std::function<void(Result<Membership>)> done) {
  Reset();
  node_.BeginRound(weak_from_this(), std::move(done));
  join_watch_.Start();
  if (node_.is_host()) {
    if (node_.round == 0) return LookUpOwn();
    return asio::post(node_.io, node_.InRound([this] { OpenStore(); }));
  }
  if (node_.connection == nullptr) {
    node_.connection = std::make_unique<StoreConnection>(
        node_.io, node_.options.endpoint, DeadlineAfter(node_.options.rules.join_timeout));
  }
  Announce();
}

void StaticRendezvous::LookUpOwn() {
  if (!node_.joining()) return;
  const std::string& host = node_.options.endpoint.host;
  resolve_ = std::make_unique<AsyncResolve>(
      node_.io, host,
      node_.InRound([this, host](const Result<std::vector<asio::ip::address>>& found) {
        if (!found.has_value()) {
          // The name may become known. Until then the store must not listen on all addresses.
          node_.ReportLine("waiting for the name of node 0: " + found.error().what);
          return node_.After(pause_, kLookUpPause, [this] { LookUpOwn(); });
        }
        addresses_ = OwnAddresses(host, *found, node_.nnodes);
        if (addresses_.empty()) {
          node_.ReportLine("listening on all addresses: " + host +
                           " is not known as an address of this machine");
        }
        OpenStore();
      }));
}

// A single node replaces its store in every round, at the same port. Several nodes keep the first
// store for their agents, and the workers of later rounds get another one.
void StaticRendezvous::OpenStore() {
  const bool replace = node_.alone() || node_.round == 0;
  std::unique_ptr<StoreServer>& opened = replace ? node_.server : node_.round_server;
  opened.reset();
  const uint16_t port = replace ? node_.options.endpoint.port : uint16_t{0};
  auto server = ListenOnOwn(node_.io, addresses_, port);
  if (!server.has_value()) {
    const bool taken =
        server.error().code == Code::kAddressInUse && !node_.alone() && node_.round == 0;
    return taken ? identity_.FailWithoutPort(server.error())
                 : node_.EndJoin(std::move(server).error());
  }
  opened = *std::move(server);
  if (node_.alone()) {
    const RoleInfo self{node_.options.role, 0, node_.options.local_world_size};
    return FinishJoin(AssignRanks({&self, 1})[0], opened->port());
  }
  if (node_.round == 0) {
    node_.hosted_by_ddprun = true;
    node_.ReportLine(ExposureWarning(addresses_, opened->port()));
    identity_.PublishHost();
    if (addresses_.empty()) identity_.FindSecondHost();
    host_.WatchNodes();
  }
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
