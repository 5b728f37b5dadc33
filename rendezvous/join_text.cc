#include "rendezvous/join_text.h"

#include "rendezvous/net/quote_received.h"

namespace ddprun::rendezvous {

std::string DurationText(std::chrono::milliseconds time) {
  const auto ms = time.count();
  if (ms > 0 && ms % 60'000 == 0) return std::to_string(ms / 60'000) + " min";
  if (ms % 1000 == 0) return std::to_string(ms / 1000) + " s";
  return std::to_string(ms) + " ms";
}

Status CheckNodes(const RendezvousOptions& options) {
  const JobRules& rules = options.rules;
  if (rules.min_nodes < 1 || rules.max_nodes < rules.min_nodes || rules.max_nodes > kMaxNodes) {
    return Error{.code = Code::kUsage,
                 .title = "BAD NUMBER OF NODES",
                 .where = "--nnodes",
                 .what = "--nnodes is " + std::to_string(rules.min_nodes) + ":" +
                         std::to_string(rules.max_nodes) +
                         "; expected MIN from 1 to MAX, and MAX "
                         "up to " +
                         std::to_string(kMaxNodes) + ".",
                 .page = "nnodes"};
  }
  const HostPort& endpoint = options.endpoint;
  if (rules.max_nodes > 1 && (endpoint.host.empty() || endpoint.port == 0)) {
    return Error{.code = Code::kUsage,
                 .title = "ENDPOINT MISSING",
                 .where = "--rdzv_endpoint",
                 .what = "Several nodes must know at which host and port they meet; this is " +
                         ToString(endpoint) + ".",
                 .hint = "Give --rdzv_endpoint=host:port, the same on every node.",
                 .page = "endpoint"};
  }
  return {};
}

Status CheckNodeRank(const RendezvousOptions& options) {
  const int last = options.rules.max_nodes - 1;
  const int rank = options.node_rank.value_or(0);
  if (rank >= 0 && rank <= last) return {};
  return Error{.code = Code::kUsage,
               .title = "BAD NODE RANK",
               .where = "--node_rank",
               .what = "--node_rank is " + std::to_string(rank) + "; with --nnodes=" +
                       std::to_string(last + 1) + " expected 0 to " + std::to_string(last) + ".",
               .hint = "Give every node its own --node_rank, beginning with 0.",
               .page = "node-rank"};
}

Error RendezvousError(
    std::string title, std::string what, std::string hint, std::string where, std::string page) {
  return {.code = Code::kRendezvous,
          .title = std::move(title),
          .where = std::move(where),
          .what = std::move(what),
          .hint = std::move(hint),
          .page = std::move(page)};
}

std::string ListRanks(std::span<const int> sorted_ranks) {
  constexpr int kMostGroups = 20;
  std::string text;
  int groups = 0;
  for (size_t first = 0; first < sorted_ranks.size();) {
    if (groups++ == kMostGroups) {
      return text + " and " + std::to_string(sorted_ranks.size() - first) + " more";
    }
    size_t last = first;
    while (last + 1 < sorted_ranks.size() && sorted_ranks[last + 1] == sorted_ranks[last] + 1) {
      ++last;
    }
    if (last == first + 1) last = first;  // "2, 3" reads better than "2-3"
    if (!text.empty()) text += ", ";
    text += std::to_string(sorted_ranks[first]);
    if (last > first) text += "-" + std::to_string(sorted_ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string DescribeJoined(int nnodes, std::span<const int> missing) {
  const auto joined = nnodes - static_cast<int>(missing.size());
  std::string text = std::to_string(joined) + " of " + std::to_string(nnodes) + " nodes joined";
  if (!missing.empty()) text += ", missing: " + ListRanks(missing);
  return text;
}

Error NodesMissing(const HostPort& store,
                   bool hosted_here,
                   std::string_view joined,
                   std::chrono::milliseconds waited) {
  std::string what = "After " + DurationText(waited) + ": ";
  what += joined.empty() ? "node 0 has not given out the ranks" : joined;
  what += ".\nThe store at " + ToString(store) + " is hosted by " +
          (hosted_here ? "this node (node 0)." : "node 0, and this node reaches it.");
  return RendezvousError(
      "NODES MISSING", std::move(what),
      "Start the missing nodes with the same --master_addr, --master_port, --nnodes and "
      "--rdzv_id, each\nwith its own --node_rank; on those that run, see whether they reach " +
          ToString(store) + ".",
      ToString(store), "nodes-missing");
}

Error NoOwnName(const HostPort& endpoint, std::chrono::milliseconds waited) {
  return RendezvousError(
      "CANNOT LISTEN",
      "After " + DurationText(waited) + ": " + endpoint.host +
          " is still no name that this machine knows, so node 0 cannot tell where to listen.",
      "See that the name resolves on this machine, or give node 0's address instead of it.",
      ToString(endpoint), "cannot-listen");
}

Error NodeRankTaken(int node_rank, std::string_view other_host) {
  const std::string rank = std::to_string(node_rank);
  return RendezvousError(
      "NODE RANK TAKEN",
      "Node rank " + rank + " has already joined, from " + std::string(other_host) + ".",
      "Give every node its own --node_rank, from 0 to nnodes - 1. If another "
      "job uses this endpoint,\ngive this one another --master_port.",
      "", "node-rank-taken");
}

Error RunIdsDiffer(std::string_view here, std::string_view on_node_0, std::string_view host) {
  return RendezvousError("NODES DISAGREE",
                         "--rdzv_id is " + QuoteReceived(here) + " here and " +
                             QuoteReceived(on_node_0) + " on node 0, " + std::string(host) + ".",
                         "Start all nodes of a job with the same --rdzv_id, and another job with "
                         "another --master_port.",
                         "", "rdzv-ids-differ");
}

Error NnodesDiffer(int here, int on_node_0) {
  return RendezvousError("NODES DISAGREE",
                         "--nnodes is " + std::to_string(here) + " here and " +
                             std::to_string(on_node_0) + " on node 0.",
                         "Start all nodes with the same --nnodes.", "", "nnodes-differ");
}

Error NodeLost(std::string_view message) {
  return RendezvousError(
      "NODE LOST",
      "The job cannot restart: " + std::string(message) + ".\nA static job needs all of its nodes.",
      "See that node's log. With --rdzv_backend=c10d a lost node can be replaced.", "",
      "node-lost");
}

Error BadPeerData(const HostPort& store, std::string_view key, std::string_view value) {
  constexpr size_t kShownBytes = 80;
  return RendezvousError("BAD DATA FROM ANOTHER NODE",
                         "The key " + std::string(key) + " in the store at " + ToString(store) +
                             " holds \"" + std::string(value.substr(0, kShownBytes)) +
                             "\", which is not what a launcher writes there.",
                         "Is another program using this store? Choose another port or "
                         "--rdzv_id.",
                         ToString(store), "bad-peer-data");
}

}  // namespace ddprun::rendezvous
