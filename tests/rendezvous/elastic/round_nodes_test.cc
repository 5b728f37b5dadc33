#include "rendezvous/elastic/round_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>

namespace ddprun::rendezvous {
namespace {

using Time = RoundNodes::Time;

// What RoundNodes keeps, counted anew.
void ExpectCounts(const RoundNodes& nodes) {
  int waiting = 0;
  int waiting_seats = 0;
  std::map<int, NodeId> absent;
  const RoundNodes::Node* longest = nullptr;
  for (const auto& [id, node] : nodes) {
    waiting += node.waiting ? 1 : 0;
    waiting_seats += node.waiting && node.seat ? 1 : 0;
    if (node.seat && !node.waiting) absent[*node.seat] = id;
    const bool longer =
        node.waiting && (longest == nullptr || node.waits_since < longest->waits_since);
    if (longer) longest = &node;
  }
  ASSERT_EQ(nodes.num_waiting(), waiting);
  ASSERT_EQ(nodes.num_waiting_seats(), waiting_seats);
  ASSERT_EQ(nodes.absent(), absent);
  ASSERT_EQ(nodes.WaitsLongest() == nullptr, longest == nullptr);
  if (longest != nullptr) ASSERT_EQ(nodes.WaitsLongest()->waits_since, longest->waits_since);
}

TEST(RoundNodes, KeepsTheCountsThatALookAtAllNodesGives) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 draw(seed);
    RoundNodes nodes;
    NodeId last = 0;
    Time now;
    const auto any = [&] {
      auto node = nodes.begin();
      std::advance(node, draw() % std::distance(nodes.begin(), nodes.end()));
      return node->first;
    };
    for (int i = 0; i < 300; ++i) {
      now += std::chrono::milliseconds(draw() % 3);
      const auto kind = draw() % 6;
      if (nodes.begin() == nodes.end() || kind == 0) {
        nodes.Add(++last);
      } else if (kind < 3) {
        nodes.Wait(any(), {}, now);
      } else if (kind == 3) {
        nodes.StopWaiting(any());
      } else if (kind == 4) {
        nodes.Erase(any());
      } else {
        std::vector<NodeId> members;
        for (const auto& [id, node] : nodes) {
          if (draw() % 2 == 0) members.push_back(id);
        }
        std::ranges::shuffle(members, draw);
        nodes.Seat(members);
      }
      ASSERT_NO_FATAL_FAILURE(ExpectCounts(nodes));
    }
  }
}

}  // namespace
}  // namespace ddprun::rendezvous
