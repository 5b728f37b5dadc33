#include "rendezvous/elastic/round_state.h"

#include <algorithm>
#include <utility>

#include "rendezvous/elastic/elastic_text.h"

namespace ddprun::rendezvous {

namespace {

// How long nodes may take to open and reach a round's store. A node that fails answers sooner.
constexpr std::chrono::milliseconds kFormTimeout{60'000};

}  // namespace

RoundState::RoundState(JobRules rules, Time others_stopped)
    : rules_(rules), past_(others_stopped) {}

Actions RoundState::OnJoin(NodeId id, const NodeInfo& info, Time now) {
  now_ = now;
  const bool is_new = !nodes_.contains(id);
  nodes_.Add(id);
  const Node& node = nodes_.at(id);
  if (phase_ == Phase::kDone) {
    actions_.push_back({id, RefuseJoin{*refusal_}});
    return Take();
  }
  if (node.waiting || (phase_ == Phase::kRunning && members_.RankOf(id) >= 0)) return Take();
  nodes_.Wait(id, info, now);
  if (is_new && nodes_.num_waiting() == 1 && rounds_ == 0) gathering_since_ = now;
  if (is_new) past_.Add(info, rounds_, restarts_);
  if (!MayTakePart(node)) {
    const std::string rounds = std::to_string(admission_.short_rounds()) + " rounds in a row";
    actions_.push_back(
        {id, ReportProgress{rounds + " lost a node soon after they began: new ones wait a while"}});
  } else if (forming() && has_room()) {
    BackToGathering();
  } else if (phase_ == Phase::kRunning && has_room() && left_.empty()) {
    Admit(info);
  } else if (phase_ == Phase::kRunning) {
    actions_.push_back({id, ReportProgress{"the job runs on " + std::to_string(members_.count()) +
                                           " nodes: waiting as a spare"}});
  }
  Gather();
  return Take();
}

Actions RoundState::OnOpened(NodeId id, int64_t attempt, const HostPort& store) {
  if (!IsCurrent(id, attempt, Phase::kOpening) || id != members_.first()) return {};
  phase_ = Phase::kReaching;
  store_ = store;
  for (const Membership& each : MembershipsOf(nodes_, members_.ids(), Common(rounds_))) {
    const NodeId member = members_.ids()[static_cast<size_t>(each.node_rank)];
    actions_.push_back({member, ReachStore{attempt_, each}});
  }
  return Take();
}

Actions RoundState::OnReached(NodeId id, int64_t attempt) {
  if (IsStandIn(id)) return OnSpare(attempt, true);
  if (!IsCurrent(id, attempt, Phase::kReaching)) return {};
  reached_.insert(id);
  if (reached_.size() == members_.ids().size()) Start();
  return Take();
}

Actions RoundState::OnUnreached(NodeId id, int64_t attempt, const std::string& problem, Time now) {
  now_ = now;
  if (IsStandIn(id)) return OnSpare(attempt, false);
  if (!IsCurrent(id, attempt, phase_) || !forming()) return {};
  const NodeId master = members_.first();
  const Error refusal = NodesCannotReach(NodeText(members_.RankOf(id), nodes_.at(id).info),
                                         NodeText(0, nodes_.at(master).info), store_, problem);
  if (rounds_ == 0) {
    Close(refusal);
    return Take();
  }
  // Refuses the new node, because the other one could be reached in an earlier round.
  const bool master_is_new = nodes_.at(id).seat && !nodes_.at(master).seat;
  const auto refused = nodes_.find(master_is_new ? master : id);
  actions_.push_back({refused->first, RefuseJoin{refusal}});
  nodes_.Erase(refused->first);
  BackToGathering();
  Gather();
  return Take();
}

Actions RoundState::OnEnd(NodeId id, int64_t attempt, RoundEnd end, Time now) {
  now_ = now;
  if (!IsCurrent(id, attempt, Phase::kRunning)) return {};
  end.node_rank = members_.RankOf(id);
  EndRound(end);
  Gather();
  return Take();
}

Actions RoundState::OnLeave(NodeId id, int64_t attempt, Time now) {
  now_ = now;
  if (!IsCurrent(id, attempt, Phase::kRunning)) return {};
  left_.insert(id);
  FinishIfAllLeft();
  return Take();
}

Actions RoundState::OnAnswer(NodeId id, int64_t attempt, bool goes_on, Time now) {
  now_ = now;
  if (stand_in_ && attempt == attempt_) Follow(stand_in_->OnAnswer(id, goes_on));
  return Take();
}

Actions RoundState::OnSpare(int64_t attempt, bool reaches) {
  if (attempt == attempt_) Follow(stand_in_->OnSpare(reaches, now_, past_.all_stopped()));
  return Take();
}

Actions RoundState::OnWithdraw(NodeId id, RoundEnd end, bool ends_job, Time now, bool awaited) {
  now_ = now;
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || phase_ == Phase::kDone) return {};
  end.kind = RoundEnd::Kind::kJobFailed;
  end.node_rank = members_.RankOf(id);
  const bool spare = rounds_ > 0 && end.node_rank < 0 && !found->second.seat;
  if (ends_job && !spare) {
    if (phase_ == Phase::kRunning) {
      EndRound(end);
    } else {
      Close(JobHasEnded(end.message));
    }
    return Take();
  }
  const Node gone = found->second;
  if (awaited && !gone.waiting) past_.AddLeaving(id, gone.info);
  nodes_.Erase(id);
  HandleLostNode(id, std::move(end));
  return Take();
}

Actions RoundState::OnGone(NodeId id, const std::string& how, Time now, Time stopped) {
  now_ = now;
  const auto found = nodes_.find(id);
  past_.EndLeaving(id, stopped);
  if (found == nodes_.end()) return OnTime(now);
  const Node gone = found->second;
  nodes_.Erase(id);
  if (!gone.waiting) past_.AddSilent(gone.info, stopped);
  const int rank = members_.RankOf(id);
  const RoundEnd end{.node_rank = rank, .message = NodeText(rank, gone.info) + " is gone: " + how};
  if (!BeginStandIn(rank, gone, end)) HandleLostNode(id, end);
  return Take();
}

void RoundState::HandleLostNode(NodeId id, RoundEnd end) {
  if (phase_ == Phase::kDone) return;
  if (phase_ != Phase::kRunning) {
    if (forming() && end.node_rank >= 0) BackToGathering();
    return Gather();
  }
  if (IsStandIn(id)) return Follow(StandIn::Next::kGiveUp);
  if (end.node_rank < 0) return;  // a spare
  // No loss if its workers have ended well, but rank 0 has the store, and a stand-in needs all.
  if (left_.contains(id) && end.node_rank > 0 && !stand_in_) return FinishIfAllLeft();
  end.kind = RoundEnd::Kind::kRegroup;
  if (!rules_.elastic() && !SpareWaits()) {
    end.kind =
        restarts_ < rules_.max_restarts ? RoundEnd::Kind::kRestart : RoundEnd::Kind::kJobFailed;
  }
  if (end.kind == RoundEnd::Kind::kRegroup) admission_.OnLoss(now_);
  EndRound(end);
  Gather();
}

// The node of rank 0 has no stand-in, because it hosts the round's store.
bool RoundState::BeginStandIn(int seat, const Node& gone, RoundEnd otherwise) {
  const bool runs = phase_ == Phase::kRunning && left_.empty() && !stand_in_;
  if (!runs || seat <= 0 || !SpareWaits() || now_ < admission_.from()) return false;
  const std::optional<NodeId> spare = FindSpare(nodes_, gone.info, now_);
  if (!spare) return false;
  SendToMembers(AskToGoOn{attempt_, otherwise.message});
  otherwise.kind = RoundEnd::Kind::kRegroup;
  stand_in_.emplace(seat, *spare, members_.ids(), std::move(otherwise), now_);
  return true;
}

void RoundState::Follow(StandIn::Next next) {
  if (next == StandIn::Next::kWait) return;
  const StandIn& stand_in = *stand_in_;
  const NodeId spare = stand_in.spare();
  const auto seat = static_cast<size_t>(stand_in.seat());
  if (next == StandIn::Next::kReach) {
    Membership place = MembershipsOf(nodes_, stand_in.members(), Common(rounds_ - 1))[seat];
    place.stands_in = true;
    return actions_.push_back({spare, ReachStore{attempt_, std::move(place)}});
  }
  // Nodes that are lost again and again count, whether or not the round goes on.
  admission_.OnLoss(now_);
  if (next == StandIn::Next::kGiveUp) {
    EndRound(RoundEnd(stand_in.otherwise()));
    return Gather();
  }
  members_ = RoundMembers(stand_in.members());
  nodes_.Seat(members_.ids());
  stand_in_.reset();
  admission_.OnStart(now_);
  actions_.push_back({spare, StartRound{.attempt = attempt_, .stands_in = true}});
}

bool RoundState::MayTakePart(const Node& node) const {
  return node.waiting && (node.seat || rounds_ == 0 || now_ >= admission_.from());
}

int RoundState::NumMayTakePart() const {
  return rounds_ == 0 || now_ >= admission_.from() ? nodes_.num_waiting()
                                                   : nodes_.num_waiting_seats();
}

// REQUIRES: a round runs that has room.
void RoundState::Admit(const NodeInfo& info) {
  EndRound({.kind = RoundEnd::Kind::kRegroup,
            .node_rank = -1,
            .message = "another node came: " + NameOf(info)});
}

Actions RoundState::OnOthers(const std::string& note, Time now) {
  now_ = now;
  if (note == others_) return {};
  others_ = note;
  if (phase_ == Phase::kGathering) ReportToWaiting();
  return Take();
}

Actions RoundState::OnTime(Time now) {
  now_ = now;
  if (phase_ == Phase::kRunning && has_room() && left_.empty()) {
    const auto come =
        std::ranges::find_if(nodes_, [this](const auto& node) { return MayTakePart(node.second); });
    if (come != nodes_.end()) Admit(come->second.info);
  }
  if (forming() && now_ >= form_deadline_) DropSilent();
  if (stand_in_) Follow(stand_in_->OnTime(now_, past_.all_stopped()));
  Gather();
  RefuseOverdue();
  return Take();
}

std::optional<RoundState::Time> RoundState::NextDeadline() const {
  if (forming()) return form_deadline_;
  std::optional<Time> next;
  const auto consider = [&](Time time) { next = next ? std::min(*next, time) : time; };
  const bool pausing =
      rounds_ > 0 && now_ < admission_.from() && has_room() && nodes_.num_waiting() > 0;
  if (pausing && phase_ != Phase::kDone) consider(admission_.from());
  if (stand_in_) consider(stand_in_->Deadline(past_.all_stopped()));
  if (phase_ != Phase::kGathering) return next;
  if (const Node* const first = nodes_.WaitsLongest()) consider(OverdueAt(*first));
  if (!next) return std::nullopt;  // no node waits
  if (last_call_) next = last_call_;
  const Time stopped = past_.all_stopped();
  if (now_ < stopped && stopped < Time::max()) consider(stopped);
  if (WaitingLine() != lines_.last()) consider(lines_.next());
  return next;
}

void RoundState::Gather() {
  if (phase_ != Phase::kGathering) return;
  if (Complete()) return Form();
  ReportToWaiting();
}

bool RoundState::Complete() {
  const int waiting = NumMayTakePart();
  if (waiting < rules_.min_nodes) {
    last_call_.reset();
    return false;
  }
  if (now_ < past_.all_stopped()) return false;
  if (rounds_ > 0) {
    // Nodes of the last round join again when their workers have stopped.
    return nodes_.absent().empty() || now_ >= gathering_since_ + rules_.join_timeout;
  }
  if (waiting >= rules_.max_nodes) return true;
  if (!last_call_) last_call_ = now_ + rules_.last_call_timeout;
  return now_ >= *last_call_;
}

void RoundState::Form() {
  std::vector<Candidate> candidates;
  for (const auto& [id, node] : nodes_) {
    if (MayTakePart(node)) candidates.push_back({id, node.seat, node.info.wished_rank});
  }
  members_ = RoundMembers(SeatNodes(candidates, rules_.max_nodes));
  phase_ = Phase::kOpening;
  form_deadline_ = now_ + kFormTimeout;
  store_ = {};
  reached_.clear();
  left_.clear();
  actions_.push_back({members_.first(), OpenStore{++attempt_}});
}

void RoundState::BackToGathering() {
  phase_ = Phase::kGathering;
  members_ = {};
}

// Refuses the nodes that have not answered, so that they do not hold up the others for ever.
void RoundState::DropSilent() {
  const bool opening = phase_ == Phase::kOpening;
  const auto asked = opening ? std::vector{members_.first()} : members_.ids();
  for (const NodeId id : asked) {
    if (reached_.contains(id)) continue;
    const auto silent = nodes_.find(id);
    const std::string name = NodeText(members_.RankOf(id), silent->second.info);
    actions_.push_back({id, RefuseJoin{NodeDidNotAnswer(name, kFormTimeout)}});
    nodes_.Erase(id);
  }
  BackToGathering();
}

void RoundState::Start() {
  phase_ = Phase::kRunning;
  admission_.OnStart(now_);
  ++rounds_;
  past_.End();
  last_call_.reset();
  lines_.Forget();
  nodes_.Seat(members_.ids());
  SendToMembers(StartRound{attempt_});
}

void RoundState::EndRound(const RoundEnd& end) {
  stand_in_.reset();
  if (end.kind == RoundEnd::Kind::kRestart) ++restarts_;
  SendToMembers(ReportEnd{attempt_, end});
  if (end.kind == RoundEnd::Kind::kJobFailed) return Close(JobHasEnded(end.message));
  phase_ = Phase::kGathering;
  gathering_since_ = now_;
  members_ = {};
}

void RoundState::FinishIfAllLeft() {
  if (left_.size() < members_.ids().size()) return;
  SendToMembers(AllLeft{attempt_});
  Close(rules_.spares > 0 ? SpareNotNeeded() : JobHasEnded(""));
}

void RoundState::Close(const Error& refusal) {
  phase_ = Phase::kDone;
  done_since_ = now_;
  refusal_ = refusal;
  for (const auto& [id, node] : nodes_) {
    if (!node.waiting) continue;
    nodes_.StopWaiting(id);
    actions_.push_back({id, RefuseJoin{refusal}});
  }
}

template <typename Action>
void RoundState::SendToMembers(const Action& action) {
  for (const NodeId member : members_.ids()) {
    if (nodes_.contains(member)) actions_.push_back({member, action});
  }
}

Actions RoundState::Take() {
  return std::exchange(actions_, {});
}

bool RoundState::IsCurrent(NodeId id, int64_t attempt, Phase phase) const {
  return phase_ == phase && attempt == attempt_ && members_.RankOf(id) >= 0;
}

void RoundState::RefuseOverdue() {
  if (phase_ != Phase::kGathering || last_call_) return;
  const Error refusal = NodesDidNotCome(WaitingLine(), rules_.join_timeout);
  for (const auto& [id, node] : nodes_) {
    if (!node.waiting || now_ < OverdueAt(node)) continue;
    // Before the first round, the other nodes may still form one. Later, the job lacks a node.
    if (rounds_ > 0) return Close(refusal);
    nodes_.StopWaiting(id);
    actions_.push_back({id, RefuseJoin{refusal}});
  }
}

void RoundState::ReportToWaiting() {
  const std::string line = WaitingLine();
  if (!lines_.Take(line, nodes_.num_waiting(), now_)) return;
  for (const auto& [id, node] : nodes_) {
    if (node.waiting) actions_.push_back({id, ReportProgress{line}});
  }
}

std::string RoundState::WaitingLine() const {
  if (last_call_ && rounds_ == 0) return LastCallText(nodes_.num_waiting(), rules_);
  const std::string line = WaitingText(nodes_, rules_);
  if (now_ < past_.all_stopped()) return line + std::string(kStillRunning);
  return rounds_ == 0 ? line + others_ : line;
}

}  // namespace ddprun::rendezvous
