// The node of each rank of a group, and the order in which data goes between the nodes. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun::trainer {

// Nodes are numbered from 0, in the order of their first ranks.
class NodePlacement {
 public:
  // `node_of_rank`: any numbers, equal for ranks of one node. `names`: see NameOf(); empty means
  // the ranks' numbers.
  NodePlacement(int rank, const std::vector<int>& node_of_rank, std::vector<int> names = {});

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(node_of_.size()); }
  int node() const { return NodeOf(rank_); }
  int nodes() const { return static_cast<int>(members_.size()); }
  // Returns the number of `rank` that errors and the recorder show.
  int NameOf(int rank) const { return names_.empty() ? rank : names_[static_cast<size_t>(rank)]; }
  std::vector<int> MemberNames(int node) const;
  int NodeOf(int rank) const { return node_of_[static_cast<size_t>(rank)]; }
  // Returns the place of a rank among the ranks of its node.
  int LocalOf(int rank) const { return local_of_[static_cast<size_t>(rank)]; }
  // Returns the ranks of a node in rank order.
  const std::vector<int>& Members(int node) const { return members_[static_cast<size_t>(node)]; }

  // Returns the number of ranks of each node that carry data between nodes: the size of the
  // smallest node. They are the first ranks of each node, and each one talks to the ranks with its
  // place on the other nodes.
  int lanes() const { return lanes_; }
  bool carries() const { return LocalOf(rank_) < lanes_; }
  // Returns the rank with this rank's place on another node. REQUIRES: carries().
  int Counterpart(int node) const { return Members(node)[static_cast<size_t>(LocalOf(rank_))]; }

  // A run of ranks on one node, as their places in it. A sum in rank order goes through all legs.
  // If each node has consecutive ranks, there is one leg for each node.
  struct Leg {
    int node = 0;
    std::vector<int> locals;
  };
  const std::vector<Leg>& legs() const { return legs_; }
  // Returns the nodes in the order in which they get the result, from the last leg to the first.
  const std::vector<int>& way_back() const { return way_back_; }

 private:
  int rank_;
  std::vector<int> names_;
  std::vector<int> node_of_;
  std::vector<int> local_of_;
  std::vector<std::vector<int>> members_;
  int lanes_ = 0;
  std::vector<Leg> legs_;
  std::vector<int> way_back_;
};

}  // namespace ddprun::trainer
