// The coordinator's view of one job: which nodes are there, which round they form, how it ends.
// Pure: events in, actions out, time from outside. Nothing is sent or waited for here.
//
//   gathering -> opening -> reaching -> running -> gathering ... -> done
//
// In `opening` the node of rank 0 opens a fresh store, in `reaching` every node tries to reach it;
// a node that comes or goes meanwhile, or does not answer, takes the job back to gathering. A round
// that runs may go on with a spare in the place of a lost node (stand_in.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ddprun/error.h>
#include "rendezvous/elastic/admission.h"
#include "rendezvous/elastic/past_round.h"
#include "rendezvous/elastic/round_actions.h"
#include "rendezvous/elastic/round_members.h"
#include "rendezvous/elastic/round_nodes.h"
#include "rendezvous/elastic/stand_in.h"
#include "rendezvous/elastic/wait_lines.h"
#include "rendezvous/net/address.h"
#include "rendezvous/rendezvous_options.h"

namespace ddprun::rendezvous {

class RoundState {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Until `others_stopped`, workers of a round that another coordinator formed may still run.
  explicit RoundState(JobRules rules, Time others_stopped = {});

  // A node wants to be in the next round: for the first time, or again after a round has ended.
  Actions OnJoin(NodeId node, const NodeInfo& info, Time now);
  Actions OnOpened(NodeId node, int64_t attempt, const HostPort& store);
  Actions OnReached(NodeId node, int64_t attempt);
  // The node cannot open or reach the round's store. Before the first round, the whole job is
  // refused. Later one node is refused: the node of rank 0 if it is new and `node` is not,
  // otherwise `node`.
  Actions OnUnreached(NodeId node, int64_t attempt, const std::string& problem, Time now);
  // A node ends the round. The first end counts, and all nodes of the round get it.
  Actions OnEnd(NodeId node, int64_t attempt, RoundEnd end, Time now);
  Actions OnLeave(NodeId node, int64_t attempt, Time now);
  // The answer to AskToGoOn.
  Actions OnAnswer(NodeId node, int64_t attempt, bool goes_on, Time now);
  // The node leaves for good, in a round or between rounds. `ends_job` means that the other nodes
  // cannot continue without it; it is ignored for a spare. `awaited`: the next round does not
  // start before the node is gone.
  Actions OnWithdraw(NodeId node, RoundEnd end, bool ends_job, Time now, bool awaited = false);
  // The node's connection ended. `how` follows "node 1 (host) is gone: ". The next round does not
  // start before the node's workers have ended, at `stopped`.
  Actions OnGone(NodeId node, const std::string& how, Time now, Time stopped = {});
  // Sets the text about other jobs that wait; "" means that there is none.
  Actions OnOthers(const std::string& note, Time now);
  Actions OnTime(Time now);

  // Returns when OnTime() has something to do, if nothing else happens before.
  std::optional<Time> NextDeadline() const;

  const JobRules& rules() const { return rules_; }
  bool done() const { return phase_ == Phase::kDone; }
  Time done_since() const { return done_since_; }
  // Number of nodes in Join() for the first round; 0 after it has started.
  int num_waiting() const { return rounds_ == 0 && !done() ? nodes_.num_waiting() : 0; }
  // The nodes, by node rank, of the round that is being formed or runs.
  const std::vector<NodeId>& members() const { return members_.ids(); }

 private:
  enum class Phase { kGathering, kOpening, kReaching, kRunning, kDone };
  using Node = RoundNodes::Node;

  void Gather();
  bool Complete();
  void Form();
  void BackToGathering();
  void DropSilent();
  void Admit(const NodeInfo& info);
  void Start();
  void EndRound(const RoundEnd& end);
  void HandleLostNode(NodeId id, RoundEnd end);
  bool BeginStandIn(int seat, const Node& gone, RoundEnd otherwise);
  Actions OnSpare(int64_t attempt, bool reaches);
  void Follow(StandIn::Next next);
  void FinishIfAllLeft();
  void Close(const Error& refusal);
  void RefuseOverdue();
  void ReportToWaiting();
  template <typename Action>
  void SendToMembers(const Action& action);
  Actions Take();

  bool has_room() const { return members_.count() < rules_.max_nodes; }
  bool MayTakePart(const Node& node) const;  // in the next round
  int NumMayTakePart() const;
  bool SpareWaits() const {
    return rules_.spares > 0 && nodes_.num_waiting() > nodes_.num_waiting_seats();
  }
  bool forming() const { return phase_ == Phase::kOpening || phase_ == Phase::kReaching; }
  bool IsStandIn(NodeId id) const { return stand_in_ && stand_in_->spare() == id; }
  bool IsCurrent(NodeId id, int64_t attempt, Phase phase) const;
  // What all nodes have in their memberships of the round.
  Membership Common(int round) const {
    return {.round = round,
            .restart_count = restarts_,
            .master_addr = store_.host,
            .master_port = store_.port};
  }
  std::string WaitingLine() const;
  Time OverdueAt(const Node& node) const {
    return std::max(node.waits_since, gathering_since_) + rules_.join_timeout;
  }

  const JobRules rules_;
  Phase phase_ = Phase::kGathering;
  RoundNodes nodes_;
  RoundMembers members_;
  std::set<NodeId> reached_;         // members that reach the round's store
  std::set<NodeId> left_;            // members whose workers have ended well
  HostPort store_;                   // of the round that is being formed, or runs
  std::optional<StandIn> stand_in_;  // while a round runs without one of its nodes
  int64_t attempt_ = 0;
  int rounds_ = 0;  // number of rounds that have started
  int restarts_ = 0;
  PastRound past_;
  std::optional<Time> last_call_;  // when the first round starts with the nodes that joined
  Time gathering_since_;
  Time form_deadline_;  // of opening and reaching
  Admission admission_;
  Time done_since_;
  std::optional<Error> refusal_;  // what late nodes get when the job is done
  std::string others_;            // see OnOthers()
  WaitLines lines_;
  Time now_;
  Actions actions_;
};

}  // namespace ddprun::rendezvous
