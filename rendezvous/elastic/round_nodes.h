// The nodes of a job that are connected, with what is counted of them. No event of a job has to
// look at all nodes, so that ten thousand of them cost ten times what a thousand cost. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/elastic/round_actions.h"

namespace ddprun::rendezvous {

class RoundNodes {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Node {
    NodeInfo info;
    bool waiting = false;  // in Join()
    Time waits_since;
    std::optional<int> seat = {};  // its node rank in the last round that ran
  };
  using Map = std::map<NodeId, Node>;

  // Does nothing if the node is there. REQUIRES of the methods below: it is.
  void Add(NodeId id) { nodes_[id]; }
  void Wait(NodeId id, const NodeInfo& info, Time now);
  void StopWaiting(NodeId id);
  // The node is lost. If it has a seat, the next round needs another one in its place.
  void Erase(NodeId id);
  // Gives the members seats by their order, and takes those of all others. Members stop waiting,
  // and no node is lost any longer.
  void Seat(const std::vector<NodeId>& members);

  Map::const_iterator begin() const { return nodes_.begin(); }
  Map::const_iterator end() const { return nodes_.end(); }
  Map::const_iterator find(NodeId id) const { return nodes_.find(id); }
  bool contains(NodeId id) const { return nodes_.contains(id); }
  const Node& at(NodeId id) const { return nodes_.at(id); }

  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  // The number of nodes that wait and have a seat.
  int num_waiting_seats() const { return seats_ - static_cast<int>(absent_.size()); }
  // By seat: the nodes that have one and do not wait.
  const std::map<int, NodeId>& absent() const { return absent_; }
  // By seat: the names of lost nodes.
  const std::map<int, std::string>& lost() const { return lost_; }
  // Returns the node that has waited longest; nullptr if none waits.
  const Node* WaitsLongest() const {
    return waiting_.empty() ? nullptr : &nodes_.at(waiting_.begin()->second);
  }

 private:
  Map nodes_;
  std::set<std::pair<Time, NodeId>> waiting_;
  int seats_ = 0;
  std::map<int, NodeId> absent_;
  std::map<int, std::string> lost_;
};

}  // namespace ddprun::rendezvous
