#include "rendezvous/elastic/stand_in.h"

#include <algorithm>
#include <utility>

namespace ddprun::rendezvous {

namespace {

// The other workers wait meanwhile.
constexpr std::chrono::seconds kLimit{15};

}  // namespace

StandIn::StandIn(
    int seat, NodeId spare, const std::vector<NodeId>& members, RoundEnd otherwise, Time now)
    : seat_(seat),
      spare_(spare),
      otherwise_(std::move(otherwise)),
      deadline_(now + kLimit),
      members_(members),
      asked_(members.begin(), members.end()) {
  NodeId& place = members_[static_cast<size_t>(seat)];
  asked_.erase(std::exchange(place, spare));
}

StandIn::Next StandIn::OnAnswer(NodeId node, bool goes_on) {
  if (asked_.erase(node) == 0) return Next::kWait;
  if (!goes_on) return Next::kGiveUp;
  return asked_.empty() ? Next::kReach : Next::kWait;
}

StandIn::Next StandIn::OnSpare(bool reaches, Time now, Time stopped) {
  if (!asked_.empty()) return Next::kWait;  // nobody has told it to reach the store
  has_reached_ = reaches;
  return reaches ? OnTime(now, stopped) : Next::kGiveUp;
}

StandIn::Next StandIn::OnTime(Time now, Time stopped) const {
  if (has_reached_ && now >= stopped) return Next::kStart;
  return now >= deadline_ ? Next::kGiveUp : Next::kWait;
}

StandIn::Time StandIn::Deadline(Time stopped) const {
  return has_reached_ ? std::min(deadline_, stopped) : deadline_;
}

std::optional<NodeId> FindSpare(const RoundNodes& nodes, const NodeInfo& gone, StandIn::Time now) {
  for (const auto& [id, node] : nodes) {
    const bool is_alike =
        node.info.role == gone.role && node.info.local_world_size == gone.local_world_size;
    const bool is_spare = node.waiting && !node.seat && now >= node.waits_since + kSpareReady;
    if (is_spare && is_alike) return id;
  }
  return std::nullopt;
}

}  // namespace ddprun::rendezvous
