// How a round ends before all workers have ended well: because of which node, and whether the other
// nodes know.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "base/log.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// Use it on the loop thread only.
class RoundEnding {
 public:
  // `on_known` is called when the other nodes know of the end.
  RoundEnding(Log log, bool several_nodes, std::function<void()> on_known)
      : log_(std::move(log)), several_nodes_(several_nodes), on_known_(std::move(on_known)) {}

  // Ends the round on all nodes, unless it has ended already. `own` is this node's place.
  void End(rendezvous::Rendezvous& node,
           const rendezvous::Membership& own,
           rendezvous::RoundEnd end);
  // Leaves the round for good: see Rendezvous::Withdraw().
  void Withdraw(rendezvous::Rendezvous& node, rendezvous::RoundEnd end);
  // Notes the end that counts on all nodes: another node's, if that was first.
  void NoteEnd(const rendezvous::RoundEnd& end) { end_ = end; }
  // Forgets the end, because the next round begins.
  void Reset() { end_.reset(); }
  // Continues although the other nodes may not know.
  void StopWaiting() { is_known_ = true; }

  // Returns how the round ends; nullopt means that no node has ended it.
  const std::optional<rendezvous::RoundEnd>& end() const { return end_; }
  // Returns whether no node is left that has to be told of an end.
  bool is_known() const { return is_known_; }

 private:
  // Returns what the rendezvous calls when the other nodes know. A later call makes the function of
  // an earlier one do nothing.
  std::function<void()> WhenKnown();

  const Log log_;
  const bool several_nodes_;
  const std::function<void()> on_known_;
  std::optional<rendezvous::RoundEnd> end_;
  bool is_known_ = true;
  int calls_ = 0;  // of WhenKnown()
};

}  // namespace ddprun::launcher
