// Texts of the c10d back end for its users. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ddprun/error.h>
#include "rendezvous/elastic/round_actions.h"
#include "rendezvous/elastic/round_nodes.h"
#include "rendezvous/net/address.h"
#include "rendezvous/rendezvous_options.h"

namespace ddprun::rendezvous {

// "4" or "2 to 4".
std::string NnodesText(int min_nodes, int max_nodes);

// "hpc17, pid 4711" and "node 3 (hpc17, pid 4711)".
std::string NameOf(const NodeInfo& info);
std::string NodeText(int rank, const NodeInfo& info);

// "1 of 2 nodes joined, waiting for node 1 (b, pid 102) to stop its workers". Names only the first
// nodes of a list, because a message has a limit and the line goes to every node that waits.
std::string WaitingText(const RoundNodes& nodes, const JobRules& rules);

// The end of WaitingText() while workers of a lost coordinator's round may still run.
inline constexpr std::string_view kStillRunning =
    "; workers of an earlier round that run elsewhere get time to end (--rdzv_conf=stop_timeout)";

// The first round begins soon with the nodes that have joined.
std::string LastCallText(int joined, const JobRules& rules);

// A job of a coordinator, and how many of its nodes wait for its first round.
struct WaitingJob {
  std::string_view run_id;
  int nodes = 0;
};
inline constexpr size_t kMostOtherJobs = 4;  // that are named

// Returns a note for the waiting nodes of job `own` on the others that wait, because some of a
// job's nodes may have got another --rdzv_id by mistake; "" if there are none.
std::string OtherJobsText(std::span<const WaitingJob> jobs, std::string_view own);

// Returns a line for the coordinator's log; "" for messages that are not logged. `nodes` is their
// number in the round.
std::string LogLine(const Outgoing& outgoing, size_t nodes);

// The nodes did not come in time. `line` is the last progress line.
Error NodesDidNotCome(std::string_view line, std::chrono::milliseconds waited);

// A node came after the job had ended. `failure` is "" if the job ended well.
Error JobHasEnded(std::string_view failure);

// Another node of this job has another value for `what`, such as "--nnodes".
Error NodesDisagree(std::string_view what, std::string_view here, std::string_view there);

// A node cannot reach the store on the node of rank 0, so its workers could not, either. If `store`
// has no port, the node of rank 0 could not open it.
Error NodesCannotReach(std::string_view node,
                       std::string_view master,
                       const HostPort& store,
                       std::string_view problem);

// Returns NodesDisagree() of the first rule that differs; nullopt if the rules agree.
std::optional<Error> Disagreement(const JobRules& here, const JobRules& there);

// The nodes of a job have other hosts in --rdzv_endpoint. "" is one host.
Error HostsDisagree(std::string_view here, std::string_view there);

// A node of the next round did not answer, so the round could not begin with it.
Error NodeDidNotAnswer(std::string_view node, std::chrono::milliseconds waited);

// No coordinator answered at the endpoint before the deadline. `is_elsewhere` means that the
// endpoint is an address of another machine.
Error NoCoordinator(const HostPort& endpoint,
                    std::string_view problem,
                    std::chrono::milliseconds waited,
                    bool is_elsewhere);

// No leader was elected among the hosts before the deadline, or this node did not find it.
Error NoLeader(std::string_view hosts, std::string_view problem, std::chrono::milliseconds waited);

// The program at the endpoint is not ddprun, or is a version that this one cannot understand.
Error NotACoordinator(const HostPort& endpoint, std::string_view problem);

// The coordinator at the endpoint serves only the job `there`, not this node's job `here`.
Error OtherJob(const HostPort& endpoint, std::string_view there, std::string_view here);

// The job has ended well without this node. An agent reports no failure.
Error SpareNotNeeded();
// The node has found `fault` in itself, and leaves its place to a spare. An agent reports no
// failure.
Error NodeIsUnfit(std::string_view fault);

// "a:29400,b:29400,c:29400", as the nodes of a job compare it; "" if there is one host.
std::string HostsText(std::span<const HostPort> hosts);
// The name under which the hosts vote.
std::string ElectedJob(std::string_view run_id, std::string_view hosts);

// The connection to the coordinator ended while the job needed it.
Error CoordinatorLost(const HostPort& endpoint, std::string_view reason);

}  // namespace ddprun::rendezvous
