#include "rendezvous/elastic/store_place.h"

#include <algorithm>

#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

StorePlace ChooseStorePlace(std::span<const Connected> members) {
  const auto elsewhere = std::ranges::find_if(
      members, [](const Connected& member) { return !member.peer.is_loopback(); });
  const bool only_here = elsewhere == members.end();
  const Connected& first = members.front();
  if (!first.wish.empty()) return {first.wish, only_here && NamesLoopback(first.wish)};
  const bool is_here = first.peer.is_loopback();
  if (members.size() == 1 && !is_here) return {"127.0.0.1", true};
  // The node of rank 0 is on this machine, so the others reach it where they reach the coordinator.
  if (is_here && !only_here) return {elsewhere->own.to_string(), false};
  return {first.peer.to_string(), only_here};
}

}  // namespace ddprun::rendezvous
