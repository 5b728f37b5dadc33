#include "launcher/doctor/node_pairs.h"

#include <algorithm>
#include <set>

namespace ddprun::launcher {

// The circle method: the last node keeps its seat, and the others move on by one seat each round.
std::vector<int> PartnersOf(int node, int nodes) {
  const int seats = nodes + nodes % 2;
  const int moving = seats - 1;
  std::vector<int> partners;
  for (int round = 0; round < moving; ++round) {
    int partner = 0;
    if (node == moving) {
      partner = round;
    } else if (node == round) {
      partner = moving;
    } else {
      partner = (2 * round - node + 2 * moving) % moving;
    }
    partners.push_back(partner < nodes ? partner : -1);
  }
  return partners;
}

Blame BlameFor(std::span<const NodePair> failed, int nodes) {
  Blame blame;
  blame.links.assign(failed.begin(), failed.end());
  while (true) {
    std::vector<std::set<int>> others(static_cast<size_t>(nodes));
    for (const NodePair& pair : blame.links) {
      others[static_cast<size_t>(pair.from)].insert(pair.to);
      others[static_cast<size_t>(pair.to)].insert(pair.from);
    }
    const auto worst = std::ranges::max_element(others, {}, &std::set<int>::size);
    if (worst == others.end() || worst->size() < 2 ||
        2 * worst->size() <= static_cast<size_t>(nodes - 1)) {
      return blame;
    }
    const int node = static_cast<int>(worst - others.begin());
    blame.nodes.push_back(node);
    std::erase_if(blame.links,
                  [node](const NodePair& pair) { return pair.from == node || pair.to == node; });
  }
}

}  // namespace ddprun::launcher
