#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "rendezvous/elastic/round_actions.h"

namespace ddprun::rendezvous {

namespace {

constexpr int kNone = std::numeric_limits<int>::max();

}  // namespace

std::vector<NodeId> SeatNodes(std::span<const Candidate> candidates, int max_nodes) {
  std::vector<Candidate> taken(candidates.begin(), candidates.end());
  std::ranges::sort(taken, {}, [](const Candidate& candidate) {
    return std::tuple(!candidate.seat, candidate.id);
  });
  if (taken.size() > static_cast<size_t>(max_nodes)) taken.resize(static_cast<size_t>(max_nodes));
  const int size = static_cast<int>(taken.size());

  std::map<int, NodeId> seats;
  std::vector<Candidate> standing;
  const auto sit = [&](const Candidate& candidate, const std::optional<int>& rank) {
    const bool free = rank && *rank >= 0 && *rank < size && !seats.contains(*rank);
    if (free) seats[*rank] = candidate.id;
    return free;
  };
  for (const Candidate& candidate : taken) {
    if (!sit(candidate, candidate.seat)) standing.push_back(candidate);
  }
  std::erase_if(standing, [&](const Candidate& candidate) {
    return !candidate.seat && sit(candidate, candidate.wished_rank);
  });
  std::ranges::sort(standing, {}, [](const Candidate& candidate) {
    return std::tuple(candidate.seat.value_or(kNone), candidate.wished_rank.value_or(kNone),
                      candidate.id);
  });
  int hole = 0;
  for (const Candidate& candidate : standing) {
    while (!sit(candidate, hole)) ++hole;
  }
  std::vector<NodeId> by_rank;
  for (const auto& [rank, id] : seats) by_rank.push_back(id);
  return by_rank;
}

}  // namespace ddprun::rendezvous
