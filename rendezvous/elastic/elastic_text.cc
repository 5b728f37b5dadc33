#include "rendezvous/elastic/elastic_text.h"

#include "rendezvous/join_text.h"
#include "rendezvous/net/quote_received.h"

namespace ddprun::rendezvous {

namespace {

// Calls use(entry) for the first entries of a list.
template <typename List, typename Use>
void UseFirst(const List& list, size_t count, const Use& use) {
  for (const auto& entry : list) {
    if (count-- == 0) return;
    use(entry);
  }
}

}  // namespace

std::string NnodesText(int min_nodes, int max_nodes) {
  const std::string most = std::to_string(max_nodes);
  return min_nodes == max_nodes ? most : std::to_string(min_nodes) + " to " + most;
}

std::string NameOf(const NodeInfo& info) {
  return info.host + ", pid " + std::to_string(info.pid);
}

std::string NodeText(int rank, const NodeInfo& info) {
  return "node " + std::to_string(rank) + " (" + NameOf(info) + ")";
}

std::string WaitingText(const RoundNodes& nodes, const JobRules& rules) {
  static constexpr size_t kNamed = 3;
  std::string line = std::to_string(nodes.num_waiting()) + " of " +
                     NnodesText(rules.min_nodes, rules.max_nodes) + " nodes joined";
  const auto more = [](size_t all) { return std::to_string(all - kNamed) + " more nodes"; };
  const auto& absent = nodes.absent();
  UseFirst(absent, kNamed, [&](const auto& node) {
    line += ", waiting for " + NodeText(node.first, nodes.at(node.second).info) +
            " to stop its workers";
  });
  if (absent.size() > kNamed) line += ", and for " + more(absent.size()) + " to stop theirs";
  const auto& lost = nodes.lost();
  UseFirst(lost, kNamed,
           [&](const auto& node) { line += ", waiting for a replacement of " + node.second; });
  if (lost.size() > kNamed) line += ", and of " + more(lost.size());
  return line;
}

std::string LastCallText(int joined, const JobRules& rules) {
  return std::to_string(joined) + " nodes joined and " + std::to_string(rules.max_nodes) +
         " may: starting after " + DurationText(rules.last_call_timeout) +
         " without the others (--rdzv_conf=last_call_timeout=SECONDS)";
}

Error NodesDidNotCome(std::string_view line, std::chrono::milliseconds waited) {
  return RendezvousError("NODES MISSING",
                         "After " + DurationText(waited) + ": " + std::string(line) + ".",
                         "Start the missing nodes with the same --rdzv_endpoint, --rdzv_id and "
                         "--nnodes. How long to wait\nis --rdzv_conf=join_timeout=SECONDS.",
                         "", "nodes-missing");
}

Error JobHasEnded(std::string_view failure) {
  const std::string how =
      failure.empty() ? "All its workers ended well." : "It failed: " + std::string(failure) + ".";
  return RendezvousError(
      "JOB HAS ENDED",
      "The job with this --rdzv_id has ended, so nobody can join it any more.\n" + how,
      "For a new job use another --rdzv_id, or start it a little later.", "", "job-has-ended");
}

Error NodesDisagree(std::string_view what, std::string_view here, std::string_view there) {
  return RendezvousError("NODES DISAGREE",
                         std::string(what) + " is " + std::string(here) + " here and " +
                             std::string(there) + " on the node that came first.",
                         "Start all nodes with the same " + std::string(what) + ".", "",
                         "nnodes-differ");
}

Error NodesCannotReach(std::string_view node,
                       std::string_view master,
                       const HostPort& store,
                       std::string_view problem) {
  const std::string how = store.port == 0 ? " cannot open its store: "
                                          : " cannot reach " + ToString(store) + ", the store of " +
                                                std::string(master) + ": ";
  return RendezvousError(
      "NODES CANNOT REACH EACH OTHER",
      std::string(node) + how + std::string(problem) + ".\nWorkers need it, so none were started.",
      "Is a firewall between them? Is this the address of the network that they share? If not, "
      "give\n" +
          std::string(master) + " the right one with --local_addr.",
      store.port == 0 ? "" : ToString(store), "nodes-cannot-reach");
}

std::optional<Error> Disagreement(const JobRules& here, const JobRules& there) {
  const std::string nnodes = NnodesText(here.min_nodes, here.max_nodes);
  const std::string other = NnodesText(there.min_nodes, there.max_nodes);
  if (nnodes != other) return NodesDisagree("--nnodes", nnodes, other);
  if (here.max_restarts != there.max_restarts) {
    return NodesDisagree("--max_restarts", std::to_string(here.max_restarts),
                         std::to_string(there.max_restarts));
  }
  if (here.spares == there.spares) return std::nullopt;
  return NodesDisagree("--spares", std::to_string(here.spares), std::to_string(there.spares));
}

Error HostsDisagree(std::string_view here, std::string_view there) {
  const auto named = [](std::string_view hosts) { return hosts.empty() ? "one host" : hosts; };
  return NodesDisagree("--rdzv_endpoint", named(here), QuoteReceived(named(there)));
}

std::string OtherJobsText(std::span<const WaitingJob> jobs, std::string_view own) {
  std::string names;
  for (const auto& [run_id, nodes] : jobs) {
    if (run_id == own) continue;
    names += (names.empty() ? "" : ", ") + QuoteReceived(run_id) +
             " (nodes: " + std::to_string(nodes) + ")";
  }
  return names.empty() ? "" : "; with another --rdzv_id wait here: " + names;
}

std::string LogLine(const Outgoing& outgoing, size_t nodes) {
  if (const auto* start = std::get_if<StartRound>(&outgoing.what)) {
    return start->stands_in ? "a spare takes the place of the lost node, and the round goes on"
                            : "a round starts, nodes: " + std::to_string(nodes);
  }
  if (const auto* asked = std::get_if<AskToGoOn>(&outgoing.what)) return asked->loss;
  if (std::holds_alternative<AllLeft>(outgoing.what)) return "all workers ended well";
  if (const auto* told = std::get_if<ReportEnd>(&outgoing.what)) {
    return std::string(NameOf(told->end.kind)) + ": " + told->end.message;
  }
  const auto* refused = std::get_if<RefuseJoin>(&outgoing.what);
  return refused == nullptr ? "" : "a node was refused: " + refused->error.title;
}

std::string HostsText(std::span<const HostPort> hosts) {
  std::string text;
  for (const HostPort& host : hosts) text += (text.empty() ? "" : ",") + ToString(host);
  return text;
}

std::string ElectedJob(std::string_view run_id, std::string_view hosts) {
  return std::string(run_id) + "\n" + std::string(hosts);
}

Error NodeDidNotAnswer(std::string_view node, std::chrono::milliseconds waited) {
  return RendezvousError("NODE DID NOT ANSWER",
                         "The others gave up " + std::string(node) + ": for " +
                             DurationText(waited) +
                             " it has not said whether it reaches the store of the next round.",
                         "Was it stopped, or is its machine overloaded? Start it anew to let it "
                         "take part again.",
                         "", "nodes-cannot-reach");
}

Error NoCoordinator(const HostPort& endpoint,
                    std::string_view problem,
                    std::chrono::milliseconds waited,
                    bool is_elsewhere) {
  const std::string place = ToString(endpoint);
  return RendezvousError(
      "CANNOT REACH THE RENDEZVOUS",
      "Nobody hosted the rendezvous at " + place + " within " + DurationText(waited) + ": " +
          std::string(problem) + (problem.ends_with('.') ? "" : "."),
      "The node that has the address " + endpoint.host +
          " hosts it: start ddprun there, too, with the same\n--rdzv_endpoint; or run `ddprun "
          "store` there." +
          (is_elsewhere ? " This node has no interface with that address." : ""),
      place, "no-rendezvous");
}

Error NoLeader(std::string_view hosts, std::string_view problem, std::chrono::milliseconds waited) {
  return RendezvousError(
      "NO LEADER FOUND",
      "This node found no leader among " + std::string(hosts) + " within " + DurationText(waited) +
          (problem.empty() ? "" : ": " + std::string(problem)) + ".",
      "A leader needs the votes of more than half of these hosts. Start ddprun there, too, with "
      "the same --rdzv_endpoint.\n`ddprun store` votes, but does not lead. Is a firewall between "
      "them?",
      "", "no-leader");
}

Error NotACoordinator(const HostPort& endpoint, std::string_view problem) {
  const std::string place = ToString(endpoint);
  return RendezvousError(
      "NOT A DDPRUN RENDEZVOUS",
      "What listens at " + place + " does not answer as ddprun does: " + std::string(problem) + ".",
      "Nodes of torchrun and ddprun can share a job with --rdzv_backend=static, not with c10d.\nIf "
      "another program has the port, choose another one in --rdzv_endpoint.",
      place, "no-rendezvous");
}

Error OtherJob(const HostPort& endpoint, std::string_view there, std::string_view here) {
  const std::string place = ToString(endpoint);
  return RendezvousError("ANOTHER JOB MEETS THERE",
                         "The rendezvous at " + place + " belongs to the job " +
                             QuoteReceived(there) + ", and this node's job is " +
                             QuoteReceived(here) + ".",
                         "If it is one job, give all nodes the same --rdzv_id. If these are two "
                         "jobs, give each a port of its own\nin --rdzv_endpoint, or let both meet "
                         "at a `ddprun store`, which serves any number of jobs.",
                         place, "no-rendezvous");
}

Error SpareNotNeeded() {
  return {.code = Code::kNotNeeded,
          .title = "SPARE NOT NEEDED",
          .what = "the job has ended well without this spare"};
}

Error NodeIsUnfit(std::string_view fault) {
  return {.code = Code::kNotNeeded,
          .title = "NODE DOES NOT TAKE PART",
          .what = "warning: this node does not take part in the job: " + std::string(fault)};
}

Error CoordinatorLost(const HostPort& endpoint, std::string_view reason) {
  return RendezvousError(
      "RENDEZVOUS LOST",
      "The node that hosts the rendezvous at " + ToString(endpoint) +
          " is gone: " + std::string(reason) + ".",
      "Its own output says why. To outlive any node of the job, host it apart: ddprun store.",
      ToString(endpoint), "rendezvous-lost");
}

}  // namespace ddprun::rendezvous
