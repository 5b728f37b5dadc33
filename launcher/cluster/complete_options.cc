#include <cstdint>
#include <optional>
#include <utility>

#include "base/text.h"
#include "launcher/cluster/cluster.h"

namespace ddprun::launcher {

namespace {

// Returns whether the user says where the nodes meet.
bool SaysWhereToMeet(const Options& options) {
  return options.given.contains("rdzv_endpoint") || options.given.contains("master_addr");
}

Error DoesNotFit(std::string_view flag, std::string what, std::string hint) {
  return Error{.code = Code::kUsage,
               .title = "FLAG DOES NOT FIT THE STEP",
               .where = "--" + std::string(flag),
               .what = std::move(what),
               .hint = std::move(hint),
               .page = "flag-does-not-fit-the-step"};
}

Status SettleNodes(const ClusterPlace& place, Options& options) {
  rendezvous::JobRules& rules = options.rdzv.rules;
  if (!options.given.contains("nnodes")) {
    rules.min_nodes = rules.max_nodes = place.agents;
    return {};
  }
  const bool fits =
      rules.elastic() ? rules.min_nodes <= place.agents : rules.max_nodes == place.agents;
  if (fits) return {};
  return DoesNotFit("nnodes",
                    place.started_by + " has started " + CountText(place.agents, "agent") +
                        ", and --nnodes is " + std::to_string(rules.min_nodes) +
                        (rules.elastic() ? ":" + std::to_string(rules.max_nodes) : "") + ".",
                    "Leave --nnodes out, or start as many agents. --nnodes=1 trains on each node "
                    "alone.");
}

Status SettleWorkers(const ClusterPlace& place, Options& options) {
  const bool given = options.given.contains("nproc_per_node");
  if (!place.share) {
    if (!given && place.has_gpus) options.nproc_per_node = "gpu";
    return {};
  }
  const auto asked = ParseInt(options.nproc_per_node);
  const HostShare& share = *place.share;
  if (given && asked != 1 && asked != share.workers) {
    const std::string tasks = std::to_string(share.workers);
    return DoesNotFit("nproc_per_node",
                      place.started_by + " has " + tasks +
                          " tasks on this node, each of which is "
                          "an agent with one worker,\nand --nproc_per_node is " +
                          options.nproc_per_node + ".",
                      "One agent a node: " + place.one_agent_a_host +
                          " ddprun --nproc_per_node=" + options.nproc_per_node +
                          " ...\nOr leave --nproc_per_node out for " + tasks + " workers a node.");
  }
  options.nproc_per_node = "1";
  options.host_share = share;
  return {};
}

void SettleEndpoint(const ClusterPlace& place, const Environment& env, Options& options) {
  rendezvous::RendezvousOptions& rdzv = options.rdzv;
  rendezvous::HostPort endpoint = place.endpoint;
  endpoint.host = env.GetOr("MASTER_ADDR", endpoint.host);
  const auto port = ParseInt(env.GetOr("MASTER_PORT", ""));
  if (options.given.contains("master_port")) {
    endpoint.port = rdzv.endpoint.port;
  } else if (port && *port > 0 && *port <= UINT16_MAX) {
    endpoint.port = static_cast<uint16_t>(*port);
  } else {
    rdzv.other_ports = place.other_ports;
  }
  options.rdzv_endpoint = rendezvous::ToString(endpoint);
  if (!options.given.contains("rdzv_backend")) {
    options.rdzv_backend = rendezvous::kElasticBackend.name;
  }
  // The name of a node may stand for 127.0.0.1 on the node itself, so addresses do not decide it.
  rdzv.is_host = rdzv.node_rank == 0;
}

}  // namespace

Status CompleteOptions(const Environment& env, Options& options) {
  const bool nodes_given = options.given.contains("nnodes");
  if (options.standalone || (nodes_given && options.rdzv.rules.max_nodes == 1)) return {};
  if (nodes_given && SaysWhereToMeet(options)) return {};
  std::optional<ClusterPlace> place;
  for (const Cluster* cluster : Clusters()) {
    DDPRUN_ASSIGN(place, cluster->find_place(env));
    if (place) break;
  }
  if (!place) return {};
  for (std::string& note : place->notes) options.notes.push_back(std::move(note));
  if (place->agents == 1) return {};
  DDPRUN_TRY(SettleNodes(*place, options));
  DDPRUN_TRY(SettleWorkers(*place, options));
  if (!options.given.contains("node_rank")) options.rdzv.node_rank = place->agent;
  if (!options.given.contains("rdzv_id")) options.rdzv.run_id = place->run_id;
  if (!SaysWhereToMeet(options)) SettleEndpoint(*place, env, options);
  if (place->agent == 0) {
    options.notes.push_back(
        place->started_by + ": " + CountText(place->agents, "agent") +
        (place->share ? ", one a task" : ", one a node") +
        (options.rdzv_endpoint.empty() ? "" : ", meeting at " + options.rdzv_endpoint));
  }
  return {};
}

}  // namespace ddprun::launcher
