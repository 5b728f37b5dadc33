#include "launcher/agent/round_ending.h"

#include <string>

namespace ddprun::launcher {

void RoundEnding::End(rendezvous::Rendezvous& node,
                      const rendezvous::Membership& own,
                      rendezvous::RoundEnd end) {
  if (end_) return;
  end.node_rank = own.node_rank;
  end_ = end;
  // A single node tells no other node, but its rendezvous counts restarts.
  if (end.kind == rendezvous::RoundEnd::Kind::kJobFailed && !several_nodes_) return;
  log_.Debug("ending the round",
             {{"kind", std::string(NameOf(end.kind))}, {"message", end.message}});
  node.EndRound(std::move(end), WhenKnown());
}

void RoundEnding::Withdraw(rendezvous::Rendezvous& node, rendezvous::RoundEnd end) {
  node.Withdraw(std::move(end), WhenKnown());
}

std::function<void()> RoundEnding::WhenKnown() {
  is_known_ = false;
  return [this, call = ++calls_] {
    if (call != calls_) return;
    is_known_ = true;
    log_.Debug("the other nodes have been told");
    on_known_();
  };
}

}  // namespace ddprun::launcher
