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
    rules.min_nodes = rules.max_nodes = place.agents - rules.spares;
    if (rules.spares < place.agents) return {};
    return DoesNotFit("spares",
                      place.started_by + " has started " + CountText(place.agents, "agent") +
                          ", and --spares is " + std::to_string(rules.spares) + ".",
                      "Start more agents, or leave fewer of them as spares.");
  }
  if (rules.elastic() && rules.min_nodes <= place.agents) {
    // Nothing else of the step can join later, so nobody waits for it. Other agents can join at a
    // place that the user gives.
    if (place.agents < rules.max_nodes && !SaysWhereToMeet(options)) {
      options.notes.push_back(place.started_by + " has " + CountText(place.agents, "agent") +
                              " and gets no other: --nnodes=" + std::to_string(rules.min_nodes) +
                              ":" + std::to_string(rules.max_nodes) + " means at most " +
                              CountText(place.agents, "node") + " here");
      rules.max_nodes = place.agents;
    }
    return {};
  }
  if (!rules.elastic() && rules.max_nodes + rules.spares == place.agents) return {};
  return DoesNotFit("nnodes",
                    place.started_by + " has started " + CountText(place.agents, "agent") +
                        ", and --nnodes is " + std::to_string(rules.min_nodes) +
                        (rules.elastic() ? ":" + std::to_string(rules.max_nodes) : "") +
                        (rules.spares > 0 ? " with --spares=" + std::to_string(rules.spares) : "") +
                        ".",
                    place.nnodes_hint);
}

Status SettleWorkers(const ClusterPlace& place, Options& options) {
  const bool given = options.given.contains("nproc_per_node");
  const auto asked = ParseInt(options.nproc_per_node);
  if (!place.share) {
    if (!given && place.gpus > 0) options.nproc_per_node = "gpu";
    // Workers may as well train on CPUs, so this is no error.
    if (given && place.gpus > 0 && asked.value_or(0) > place.gpus) {
      options.notes.push_back(CountText(*asked, "worker") + " and " + CountText(place.gpus, "GPU") +
                              " on this node; for one each: " + place.more_gpus +
                              std::to_string(*asked));
    }
    return {};
  }
  if (options.rdzv.rules.elastic()) {
    // Nobody would know which of a host's workers take part.
    return DoesNotFit("nnodes",
                      place.started_by + " has started " +
                          CountText(place.share->workers, "agent") +
                          " on this node, and an elastic job needs one agent a node.",
                      place.one_agent_a_host + " ddprun --nnodes=MIN:MAX --nproc_per_node=" +
                          std::to_string(place.share->workers) + " ...");
  }
  const HostShare& share = *place.share;
  if (given && asked != 1 && asked != share.workers) {
    const std::string tasks = CountText(share.workers, "task");
    return DoesNotFit("nproc_per_node",
                      place.started_by + " has " + tasks +
                          " on this node, each of which is an agent with one worker,\n"
                          "and --nproc_per_node is " +
                          options.nproc_per_node + ".",
                      "One agent a node: " + place.one_agent_a_host +
                          " ddprun --nproc_per_node=" + options.nproc_per_node +
                          " ...\nOr leave --nproc_per_node out for one worker a task.");
  }
  options.nproc_per_node = "1";
  options.host_share = share;
  return {};
}

Status SettleEndpoint(const ClusterPlace& place, const Environment& env, Options& options) {
  rendezvous::RendezvousOptions& rdzv = options.rdzv;
  rendezvous::HostPort endpoint = place.endpoint;
  endpoint.host = env.GetOr("MASTER_ADDR", endpoint.host);
  if (endpoint.host.empty()) {
    return Error{.code = Code::kUsage,
                 .title = "NO PLACE TO MEET",
                 .what = place.started_by + " has started " +
                         CountText(options.rdzv.rules.max_nodes, "agent") +
                         " on several hosts and does not say on which host the first one runs.",
                 .hint = place.no_host_hint,
                 .page = "no-place-to-meet"};
  }
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
  return {};
}

}  // namespace

Status CompleteOptions(const Environment& env, Options& options) {
  const bool nodes_given = options.given.contains("nnodes");
  if (options.standalone || (nodes_given && options.rdzv.rules.max_nodes == 1)) return {};
  const bool complete = nodes_given && SaysWhereToMeet(options);
  std::optional<ClusterPlace> place;
  bool elastic = false;  // the system's agents meet so
  for (const Cluster* cluster : Clusters()) {
    if (complete && !cluster->gives_each_its_place) continue;
    DDPRUN_ASSIGN(place, cluster->find_place(env));
    elastic = cluster->gives_each_its_place;
    if (place) break;
  }
  if (!place || (complete && place->agents == 1)) return {};
  for (std::string& note : place->notes) options.notes.push_back(std::move(note));
  if (place->agents == kAsManyAsGiven) place->agents = options.rdzv.rules.max_nodes;
  const bool is_step = !place->started_by.empty();
  if (place->agents > 1 || (is_step && nodes_given)) DDPRUN_TRY(SettleNodes(*place, options));
  DDPRUN_TRY(SettleWorkers(*place, options));
  if (place->agents == 1) return {};
  options.in_cluster = true;
  if (!options.given.contains("node_rank")) options.rdzv.node_rank = place->agent;
  if (!options.given.contains("rdzv_id")) options.rdzv.run_id = place->run_id;
  if (!SaysWhereToMeet(options)) {
    DDPRUN_TRY(SettleEndpoint(*place, env, options));
  } else if (elastic && !options.given.contains("rdzv_backend") &&
             !options.given.contains("master_addr")) {
    options.rdzv_backend = rendezvous::kElasticBackend.name;
  }
  if (place->agent == 0) {
    options.notes.push_back(
        place->started_by + ": " + CountText(place->agents, "agent") +
        (place->share ? ", each with one worker" : ", one a node") +
        (options.rdzv_endpoint.empty() ? "" : ", meeting at " + options.rdzv_endpoint));
  }
  return {};
}

}  // namespace ddprun::launcher
