#include "rendezvous/elastic/round_state.h"

#include <algorithm>
#include <utility>

#include "rendezvous/assign_ranks.h"
#include "rendezvous/elastic/elastic_text.h"

namespace ddprun::rendezvous {

namespace {

// How long nodes may take to open and reach a round's store. A node that fails answers sooner.
constexpr std::chrono::milliseconds kFormTimeout{60'000};
// A round that loses a node before this time counts as short.
constexpr std::chrono::seconds kLongEnough{60};
// Time between two progress lines, because a thousand nodes may come within a second.
constexpr std::chrono::milliseconds kLinePause{1000};
constexpr std::chrono::milliseconds kLinePausePerNode{1};

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
  if (node.waiting || (phase_ == Phase::kRunning && RankOf(id) >= 0)) return Take();
  nodes_.Wait(id, info, now);
  if (is_new && nodes_.num_waiting() == 1 && rounds_ == 0) gathering_since_ = now;
  if (is_new) past_.Add(info, rounds_, restarts_);
  if (!MayTakePart(node)) {
    const std::string rounds = std::to_string(short_rounds_) + " rounds in a row";
    actions_.push_back(
        {id, ReportProgress{rounds + " lost a node soon after they began: new ones wait a while"}});
  } else if (forming() && has_room()) {
    BackToGathering();
  } else if (phase_ == Phase::kRunning && has_room() && left_.empty()) {
    Admit(info);
  } else if (phase_ == Phase::kRunning) {
    actions_.push_back({id, ReportProgress{"the job runs on " + std::to_string(members_.size()) +
                                           " nodes: waiting as a spare"}});
  }
  Gather();
  return Take();
}

Actions RoundState::OnOpened(NodeId id, int64_t attempt, const HostPort& store) {
  if (!IsCurrent(id, attempt, Phase::kOpening) || id != members_.front()) return {};
  phase_ = Phase::kReaching;
  std::vector<RoleInfo> infos;
  for (const NodeId member : members_) {
    const NodeInfo& info = nodes_.at(member).info;
    infos.push_back({info.role, static_cast<int>(infos.size()), info.local_world_size});
  }
  const std::vector<AssignedRanks> ranks = AssignRanks(infos);
  for (size_t i = 0; i < members_.size(); ++i) {
    Membership membership;
    membership.round = rounds_;
    membership.restart_count = restarts_;
    membership.node_rank = static_cast<int>(i);
    membership.nnodes = static_cast<int>(members_.size());
    membership.base_rank = ranks[i].base_rank;
    membership.world_size = ranks[i].world_size;
    membership.role_base_rank = ranks[i].role_base_rank;
    membership.role_world_size = ranks[i].role_world_size;
    membership.master_addr = store.host;
    membership.master_port = store.port;
    actions_.push_back({members_[i], ReachStore{attempt_, std::move(membership)}});
  }
  store_ = store;
  return Take();
}

Actions RoundState::OnReached(NodeId id, int64_t attempt) {
  if (!IsCurrent(id, attempt, Phase::kReaching)) return {};
  reached_.insert(id);
  if (reached_.size() == members_.size()) Start();
  return Take();
}

Actions RoundState::OnUnreached(NodeId id, int64_t attempt, const std::string& problem, Time now) {
  now_ = now;
  if (!IsCurrent(id, attempt, phase_) || !forming()) return {};
  const NodeId master = members_.front();
  const Error refusal = NodesCannotReach(NodeText(RankOf(id), nodes_.at(id).info),
                                         NodeText(0, nodes_.at(master).info), store_, problem);
  if (rounds_ == 0) {
    Close(refusal);
    return Take();
  }
  // Refuses the new node, because the other one could be reached in an earlier round.
  const bool master_is_new = nodes_.at(id).seat && !nodes_.at(master).seat;
  const auto refused = nodes_.find(master_is_new ? master : id);
  actions_.push_back({refused->first, RefuseJoin{refusal}});
  if (const auto seat = refused->second.seat) {
    lost_[*seat] = NodeText(*seat, refused->second.info);
  }
  nodes_.Erase(refused->first);
  BackToGathering();
  Gather();
  return Take();
}

Actions RoundState::OnEnd(NodeId id, int64_t attempt, RoundEnd end, Time now) {
  now_ = now;
  if (!IsCurrent(id, attempt, Phase::kRunning)) return {};
  end.node_rank = RankOf(id);
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

Actions RoundState::OnWithdraw(NodeId id, RoundEnd end, bool ends_job, Time now, bool awaited) {
  now_ = now;
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || phase_ == Phase::kDone) return {};
  end.kind = RoundEnd::Kind::kJobFailed;
  end.node_rank = RankOf(id);
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
  HandleLostNode(id, gone, std::move(end));
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
  const int rank = RankOf(id);
  HandleLostNode(id, gone,
                 {.node_rank = rank, .message = NodeText(rank, gone.info) + " is gone: " + how});
  return Take();
}

void RoundState::HandleLostNode(NodeId id, const Node& gone, RoundEnd end) {
  if (phase_ == Phase::kDone) return;
  if (gone.seat) lost_[*gone.seat] = NodeText(*gone.seat, gone.info);
  if (phase_ != Phase::kRunning) {
    if (forming() && end.node_rank >= 0) BackToGathering();
    return Gather();
  }
  if (end.node_rank < 0) return;  // a spare
  // A node whose workers have ended well is no loss, unless it has rank 0: others need its store.
  if (left_.contains(id) && end.node_rank > 0) return FinishIfAllLeft();
  end.kind = RoundEnd::Kind::kRegroup;
  if (!rules_.elastic() && !SpareWaits()) {
    end.kind =
        restarts_ < rules_.max_restarts ? RoundEnd::Kind::kRestart : RoundEnd::Kind::kJobFailed;
  }
  if (end.kind == RoundEnd::Kind::kRegroup) DelayNewNodes();
  EndRound(end);
  Gather();
}

// Makes new nodes wait longer with each short round in a row, because a node that comes and crashes
// again and again would keep the others from their work.
void RoundState::DelayNewNodes() {
  constexpr int kMostDoublings = 6;
  short_rounds_ = now_ - started_ < kLongEnough ? short_rounds_ + 1 : 0;
  if (short_rounds_ < 2) return;
  admit_at_ = now_ + std::chrono::seconds(1 << std::min(short_rounds_ - 2, kMostDoublings));
}

bool RoundState::MayTakePart(const Node& node) const {
  return node.waiting && (node.seat || rounds_ == 0 || now_ >= admit_at_);
}

int RoundState::NumMayTakePart() const {
  return rounds_ == 0 || now_ >= admit_at_ ? nodes_.num_waiting() : nodes_.num_waiting_seats();
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
  Gather();
  RefuseOverdue();
  return Take();
}

std::optional<RoundState::Time> RoundState::NextDeadline() const {
  if (forming()) return form_deadline_;
  std::optional<Time> next;
  const auto consider = [&](Time time) { next = next ? std::min(*next, time) : time; };
  const bool pausing = rounds_ > 0 && now_ < admit_at_ && has_room() && nodes_.num_waiting() > 0;
  if (pausing && phase_ != Phase::kDone) consider(admit_at_);
  if (phase_ != Phase::kGathering) return next;
  if (const Node* const first = nodes_.WaitsLongest()) consider(OverdueAt(*first));
  if (!next) return std::nullopt;  // no node waits
  if (last_call_) next = last_call_;
  const Time stopped = past_.all_stopped();
  if (now_ < stopped && stopped < Time::max()) consider(stopped);
  if (WaitingLine() != reported_line_) consider(next_line_);
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
  SetMembers(SeatNodes(candidates, rules_.max_nodes));
  phase_ = Phase::kOpening;
  form_deadline_ = now_ + kFormTimeout;
  store_ = {};
  reached_.clear();
  left_.clear();
  actions_.push_back({members_.front(), OpenStore{++attempt_}});
}

void RoundState::BackToGathering() {
  phase_ = Phase::kGathering;
  SetMembers({});
}

// Refuses the nodes that have not answered, so that they do not hold up the others for ever.
void RoundState::DropSilent() {
  const bool opening = phase_ == Phase::kOpening;
  const auto asked = opening ? std::vector{members_.front()} : members_;
  for (const NodeId id : asked) {
    if (reached_.contains(id)) continue;
    const auto silent = nodes_.find(id);
    const std::string name = NodeText(RankOf(id), silent->second.info);
    actions_.push_back({id, RefuseJoin{NodeDidNotAnswer(name, kFormTimeout)}});
    if (const auto seat = silent->second.seat) lost_[*seat] = name;
    nodes_.Erase(id);
  }
  BackToGathering();
}

void RoundState::Start() {
  phase_ = Phase::kRunning;
  started_ = now_;
  ++rounds_;
  past_.End();
  lost_.clear();
  last_call_.reset();
  reported_line_.clear();
  nodes_.Seat(members_);
  SendToMembers(StartRound{attempt_});
}

void RoundState::EndRound(const RoundEnd& end) {
  if (end.kind == RoundEnd::Kind::kRestart) ++restarts_;
  SendToMembers(ReportEnd{attempt_, end});
  if (end.kind == RoundEnd::Kind::kJobFailed) return Close(JobHasEnded(end.message));
  phase_ = Phase::kGathering;
  gathering_since_ = now_;
  SetMembers({});
}

void RoundState::FinishIfAllLeft() {
  if (left_.size() < members_.size()) return;
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
  for (const NodeId member : members_) {
    if (nodes_.contains(member)) actions_.push_back({member, action});
  }
}

Actions RoundState::Take() {
  return std::exchange(actions_, {});
}

bool RoundState::IsCurrent(NodeId id, int64_t attempt, Phase phase) const {
  return phase_ == phase && attempt == attempt_ && RankOf(id) >= 0;
}

void RoundState::SetMembers(std::vector<NodeId> members) {
  members_ = std::move(members);
  ranks_.clear();
  for (size_t i = 0; i < members_.size(); ++i) ranks_[members_[i]] = static_cast<int>(i);
}

int RoundState::RankOf(NodeId id) const {
  const auto found = ranks_.find(id);
  return found == ranks_.end() ? -1 : found->second;
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
  if (line == reported_line_ || now_ < next_line_) return;
  reported_line_ = line;
  next_line_ = now_ + std::max(kLinePause, nodes_.num_waiting() * kLinePausePerNode);
  for (const auto& [id, node] : nodes_) {
    if (node.waiting) actions_.push_back({id, ReportProgress{line}});
  }
}

std::string RoundState::WaitingLine() const {
  if (last_call_ && rounds_ == 0) return LastCallText(nodes_.num_waiting(), rules_);
  const FewNames stopping(nodes_.absent(), [this](const auto& absent) {
    return NodeText(absent.first, nodes_.at(absent.second).info);
  });
  const FewNames lost(lost_, [](const auto& entry) { return entry.second; });
  const std::string line = WaitingText(nodes_.num_waiting(), rules_, stopping, lost);
  if (now_ < past_.all_stopped()) return line + std::string(kStillRunning);
  return rounds_ == 0 ? line + others_ : line;
}

}  // namespace ddprun::rendezvous
