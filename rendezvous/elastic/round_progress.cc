// Tells nodes that wait for a round what the round waits for, and refuses them after a time.
#include <algorithm>

#include "rendezvous/elastic/elastic_text.h"
#include "rendezvous/elastic/round_state.h"
#include "rendezvous/join_text.h"

namespace ddprun::rendezvous {

namespace {

// Time between two progress lines, because a thousand nodes may come within a second.
constexpr std::chrono::milliseconds kLinePause{1000};
constexpr std::chrono::milliseconds kLinePausePerNode{1};
// Most nodes that one line names, because a message has a limit and each line goes to every node
// that waits.
constexpr int kMostNamed = 3;

}  // namespace

Actions RoundState::OnOthers(const std::string& note, Time now) {
  now_ = now;
  if (note == others_) return {};
  others_ = note;
  if (phase_ == Phase::kGathering) ReportToWaiting();
  return Take();
}

void RoundState::RefuseOverdue() {
  if (phase_ != Phase::kGathering || last_call_) return;
  const Error refusal = NodesDidNotCome(WaitingLine(), rules_.join_timeout);
  for (auto& [id, node] : nodes_) {
    if (!node.waiting || now_ < OverdueAt(node)) continue;
    // Before the first round, the other nodes may still form one. Later, the job lacks a node.
    if (rounds_ > 0) return Close(refusal);
    node.waiting = false;
    actions_.push_back({id, RefuseJoin{refusal}});
  }
}

void RoundState::ReportToWaiting() {
  const std::string line = WaitingLine();
  if (line == reported_line_ || now_ < next_line_) return;
  reported_line_ = line;
  next_line_ = now_ + std::max(kLinePause, NumWaiting() * kLinePausePerNode);
  for (const auto& [id, node] : nodes_) {
    if (node.waiting) actions_.push_back({id, ReportProgress{line}});
  }
}

std::string RoundState::WaitingLine() const {
  const int waiting = NumWaiting();
  if (last_call_ && rounds_ == 0) {
    return std::to_string(waiting) + " nodes joined and " + std::to_string(rules_.max_nodes) +
           " may: starting after " + DurationText(rules_.last_call_timeout) +
           " without the others (--rdzv_conf=last_call_timeout=SECONDS)";
  }
  std::string line = std::to_string(waiting) + " of " +
                     NnodesText(rules_.min_nodes, rules_.max_nodes) + " nodes joined";
  int stopping = 0;
  for (const auto& [id, node] : nodes_) {
    if (!node.seat || node.waiting || ++stopping > kMostNamed) continue;
    line += ", waiting for " + NodeText(*node.seat, node.info) + " to stop its workers";
  }
  const auto more = [](int all) { return std::to_string(all - kMostNamed) + " more nodes"; };
  if (stopping > kMostNamed) line += ", and for " + more(stopping) + " to stop theirs";
  int lost = 0;
  for (const auto& [seat, name] : lost_) {
    if (++lost <= kMostNamed) line += ", waiting for a replacement of " + name;
  }
  if (lost > kMostNamed) line += ", and of " + more(lost);
  return rounds_ == 0 ? line + others_ : line;
}

RoundState::Time RoundState::OverdueAt(const Node& node) const {
  return std::max(node.waits_since, gathering_since_) + rules_.join_timeout;
}

}  // namespace ddprun::rendezvous
