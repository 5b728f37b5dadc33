#include "trainer/comm/node_placement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace ddprun::trainer {

NodePlacement::NodePlacement(int rank, const std::vector<int>& node_of_rank, std::vector<int> names)
    : rank_(rank), names_(std::move(names)) {
  DDPRUN_CHECK(rank >= 0 && static_cast<size_t>(rank) < node_of_rank.size());
  std::map<int, int> numbers;
  for (size_t r = 0; r < node_of_rank.size(); ++r) {
    const int node =
        numbers.try_emplace(node_of_rank[r], static_cast<int>(numbers.size())).first->second;
    if (static_cast<size_t>(node) == members_.size()) members_.emplace_back();
    std::vector<int>& members = members_[static_cast<size_t>(node)];
    node_of_.push_back(node);
    local_of_.push_back(static_cast<int>(members.size()));
    members.push_back(static_cast<int>(r));
    if (legs_.empty() || legs_.back().node != node) legs_.push_back({.node = node, .locals = {}});
    legs_.back().locals.push_back(local_of_.back());
  }
  lanes_ = size();
  for (const auto& members : members_) lanes_ = std::min(lanes_, static_cast<int>(members.size()));
  for (auto leg = legs_.rbegin(); leg != legs_.rend(); ++leg) {
    const bool new_node =
        std::find(way_back_.begin(), way_back_.end(), leg->node) == way_back_.end();
    if (new_node) way_back_.push_back(leg->node);
  }
}

std::vector<int> NodePlacement::MemberNames(int node) const {
  std::vector<int> names;
  for (const int rank : Members(node)) names.push_back(NameOf(rank));
  return names;
}

}  // namespace ddprun::trainer
