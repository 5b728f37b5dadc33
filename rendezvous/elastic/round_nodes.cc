#include "rendezvous/elastic/round_nodes.h"

#include "rendezvous/elastic/elastic_text.h"

namespace ddprun::rendezvous {

void RoundNodes::Wait(NodeId id, const NodeInfo& info, Time now) {
  Node& node = nodes_.at(id);
  waiting_.erase({node.waits_since, id});
  node.info = info;
  node.waiting = true;
  node.waits_since = now;
  waiting_.emplace(now, id);
  if (node.seat) absent_.erase(*node.seat);
}

void RoundNodes::StopWaiting(NodeId id) {
  Node& node = nodes_.at(id);
  node.waiting = false;
  waiting_.erase({node.waits_since, id});
  if (node.seat) absent_[*node.seat] = id;
}

void RoundNodes::Erase(NodeId id) {
  const Node& gone = nodes_.at(id);
  waiting_.erase({gone.waits_since, id});
  if (gone.seat) {
    absent_.erase(*gone.seat);
    lost_[*gone.seat] = NodeText(*gone.seat, gone.info);
    --seats_;
  }
  nodes_.erase(id);
}

void RoundNodes::Seat(const std::vector<NodeId>& members) {
  for (auto& [id, node] : nodes_) node.seat.reset();
  absent_.clear();
  lost_.clear();
  seats_ = static_cast<int>(members.size());
  for (int seat = 0; seat < seats_; ++seat) {
    const NodeId id = members[static_cast<size_t>(seat)];
    nodes_.at(id).seat = seat;
    StopWaiting(id);
  }
}

}  // namespace ddprun::rendezvous
