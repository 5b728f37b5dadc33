// Internal to kStaticBackend: how the end of a round reaches all nodes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <asio/steady_timer.hpp>

#include "rendezvous/static/exit_barrier.h"
#include "rendezvous/static/static_node.h"

namespace ddprun::rendezvous {

// Each node reads the end of the round from its own key. Node 0 copies the first end to all keys;
// torchrun's node 0 does not, so the node that ends the round writes all keys itself.
class RoundSpread {
 public:
  RoundSpread(StaticNode& node, const ExitBarrier& barrier);

  // Waits from now on for this node's key.
  void Watch();
  // See Rendezvous::WatchRound() and EndRound().
  void WatchRound(std::function<void(RoundEnd)> handler);
  void EndRound(RoundEnd end, std::function<void()> done);
  int restarts() const { return restarts_; }  // rounds that ended with a restart
  // Prepares for the next round, or drops the handlers for good.
  void Reset();

 private:
  void OnNote(const Result<std::string>& note);
  void Deliver();
  void CopyToAll(const std::string& note);
  void ConfirmEnd();
  void Publish(const RoundEnd& own, int round);
  void OnPublished(const Result<Reply>& reply);
  void OnReportTime();
  void FailRound(const std::string& why);
  void OnEndKnown();
  void AwaitConfirmations();
  void OnSpread();
  void OnReported();

  // State of the current round.
  struct State {
    std::unique_ptr<StoreWatch> watch;
    std::function<void(RoundEnd)> on_end;
    std::optional<RoundEnd> end;
    bool has_read_key = false;  // this node has read its key
    bool delivered = false;
    std::optional<RoundEnd::Kind> asked;  // the kind that EndRound() got on this node
    std::function<void()> on_reported;
    std::set<int> unconfirmed;  // on node 0: nodes that have not read the end yet
  };

  StaticNode& node_;
  const ExitBarrier& barrier_;
  asio::steady_timer ending_;
  asio::steady_timer spreading_;
  int restarts_ = 0;
  State now_;
};

}  // namespace ddprun::rendezvous
