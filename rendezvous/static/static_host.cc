#include "rendezvous/static/static_host.h"

#include <utility>

#include "base/env.h"
#include "rendezvous/assign_ranks.h"
#include "rendezvous/join_text.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/rank_json.h"

namespace ddprun::rendezvous {

StaticHost::StaticHost(StaticNode& node, const ExitBarrier& barrier)
    : node_(node), barrier_(barrier), refusing_(node.io) {}

void StaticHost::Reset() {
  refusing_.cancel();
  assigned_ = refused_ = false;
  for (int node = 0; node < node_.nnodes; ++node) missing_.insert(node);
}

void StaticHost::WatchNodes() {
  node_.server->OnAbandonedWait([this, self = node_.owner.lock()](
                                    const std::vector<std::string>& keys) { OnAbandoned(keys); });
}

void StaticHost::Gather() {
  if (lost_) return RefuseRound();
  for (int node = 0; node < node_.nnodes; ++node) AwaitNode(node);
}

void StaticHost::AwaitNode(int node) {
  node_.server->Call(KeysRequest(Op::kWait, {node_.keys.RoleInfo(node_.round, node)}),
                     node_.InRound([this, node](const Result<Reply>&) {
                       missing_.erase(node);
                       if (missing_.empty() && node_.joining() && !assigned_) AssignAll();
                     }));
}

void StaticHost::AssignAll() {
  assigned_ = true;
  std::vector<std::string> keys;
  for (int node = 0; node < node_.nnodes; ++node) {
    keys.push_back(node_.keys.RoleInfo(node_.round, node));
  }
  node_.Ask(KeysRequest(Op::kMultiGet, std::move(keys)),
            [this](const Reply& reply) { PublishRanks(reply); });
}

void StaticHost::PublishRanks(const Reply& role_infos) {
  std::vector<RoleInfo> nodes;
  for (int node = 0; node < node_.nnodes; ++node) {
    const std::string& text = role_infos.values[static_cast<size_t>(node)];
    const auto info = ParseRoleInfo(text);
    if (!info) {
      const std::string key = node_.keys.RoleInfo(node_.round, node);
      return node_.EndJoin(BadPeerData(node_.options.endpoint, key, text));
    }
    nodes.push_back(*info);
  }
  Request publish = KeysRequest(Op::kMultiSet, {});
  if (node_.round_server != nullptr) {
    publish.keys.push_back(node_.keys.MasterPort(node_.round));
    publish.values.push_back(std::to_string(node_.round_server->port()));
  }
  const std::vector<AssignedRanks> assigned = AssignRanks(nodes);
  for (int node = 0; node < node_.nnodes; ++node) {
    publish.keys.push_back(node_.keys.AssignedRanks(node_.round, node));
    publish.values.push_back(ToJson(assigned[static_cast<size_t>(node)]));
  }
  node_.Ask(std::move(publish), [](const Reply&) {});
}

void StaticHost::OnAbandoned(const std::vector<std::string>& keys) {
  const std::string prefix = node_.keys.PresentPrefix();
  for (const std::string& key : keys) {
    if (!key.starts_with(prefix)) continue;
    const auto node = ParseInt(std::string_view(key).substr(prefix.size()));
    if (node && *node >= 1 && *node < node_.nnodes) OnNodeGone(static_cast<int>(*node));
  }
}

void StaticHost::OnNodeGone(int node) {
  if (barrier_.finished()) return;
  if (node_.round == 0 && node_.joining() && !assigned_) {
    // The node may be started again.
    node_.Send(KeyRequest(Op::kDeleteKey, node_.keys.Node(node)));
    node_.Send(KeyRequest(Op::kDeleteKey, node_.keys.RoleInfo(node_.round, node)));
    if (missing_.insert(node).second) AwaitNode(node);
    return;
  }
  node_.server->Call(
      KeysRequest(Op::kCheck, {node_.keys.Left(node_.round, node)}),
      [this, self = node_.owner.lock(), node, round = node_.round](const Result<Reply>& reply) {
        if (round != node_.round) return OnNodeGone(node);
        OnNodeLost(node, reply.has_value() && reply->status == kCheckReady);
      });
}

void StaticHost::OnNodeLost(int node, bool had_left) {
  if (node_.stopped || barrier_.finished() || refused_) return;
  const std::string how =
      had_left ? "its workers had ended well" : "the connection to its agent was closed";
  const RoundEnd end{.node_rank = node,
                     .message = "node " + std::to_string(node) + " is gone: " + how};
  if (!lost_) lost_ = end;
  if (node_.joining() && !assigned_) return RefuseRound();
  if (had_left) return;
  node_.Send(KeyRequest(Op::kCompareSet, node_.keys.Failure(node_.round, 0), ToNote(end)));
}

// The other nodes read the reason from the keys where they expect their ranks.
void StaticHost::RefuseRound() {
  assigned_ = refused_ = true;
  Request refuse = KeysRequest(Op::kMultiSet, {});
  for (int node = 1; node < node_.nnodes; ++node) {
    refuse.keys.push_back(node_.keys.AssignedRanks(node_.round, node));
    refuse.values.push_back(ToNote(*lost_));
  }
  node_.Send(std::move(refuse));
  node_.After(refusing_, kSpreadTimeout, [this] { node_.EndJoin(NodeLost(lost_->message)); });
}

}  // namespace ddprun::rendezvous
