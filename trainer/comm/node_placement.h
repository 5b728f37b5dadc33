// Which ranks of a group are on which node, and what follows for the ways between them. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun::trainer {

// Nodes are numbered from 0, in the order of their first ranks.
class NodePlacement {
 public:
  // `node_of_rank`: any numbers, equal for ranks of one node.
  // `names`: see NameOf; empty: the ranks' numbers.
  NodePlacement(int rank, const std::vector<int>& node_of_rank, std::vector<int> names = {});

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(node_of_.size()); }
  int node() const { return NodeOf(rank_); }
  int nodes() const { return static_cast<int>(members_.size()); }
  // What people are told of a rank.
  int NameOf(int rank) const { return names_.empty() ? rank : names_[static_cast<size_t>(rank)]; }
  std::vector<int> MemberNames(int node) const;
  int NodeOf(int rank) const { return node_of_[static_cast<size_t>(rank)]; }
  // The place of a rank among those of its node.
  int LocalOf(int rank) const { return local_of_[static_cast<size_t>(rank)]; }
  // In rank order.
  const std::vector<int>& Members(int node) const { return members_[static_cast<size_t>(node)]; }

  // What goes between nodes is shared out to as many ranks as every node has: on each node the
  // first ones, and each talks to those with the same place on the other nodes.
  int lanes() const { return lanes_; }
  bool carries() const { return LocalOf(rank_) < lanes_; }
  // The rank with this one's place on another node. REQUIRES: carries().
  int Counterpart(int node) const { return Members(node)[static_cast<size_t>(LocalOf(rank_))]; }

  // The way of a sum in rank order: runs of ranks on one node, as their places in it. With
  // neighbouring ranks on one node there is one leg for each node.
  struct Leg {
    int node = 0;
    std::vector<int> locals;
  };
  const std::vector<Leg>& legs() const { return legs_; }
  // The nodes, each once, on the way of the result: from the last leg's back to the first's.
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
