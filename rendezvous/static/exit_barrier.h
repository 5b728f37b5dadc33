// Internal to kStaticBackend: how nodes leave whose workers have ended well.
#pragma once

#include <functional>
#include <memory>

#include "rendezvous/static/static_node.h"

namespace ddprun::rendezvous {

// Torch elastic's exit barrier: the store counts the nodes, and all of them end with the last.
class ExitBarrier {
 public:
  explicit ExitBarrier(StaticNode& node) : node_(node) {}

  // See Rendezvous::Leave().
  void Leave(std::function<void(Status)> done);
  bool waiting() const { return on_left_ != nullptr; }
  bool counted() const { return counted_; }    // by the store, in this round
  bool finished() const { return finished_; }  // the workers of all nodes have ended well
  // Prepares for the next round, or drops the handlers for good.
  void Reset();

 private:
  void Enter();
  void AwaitLast(AsyncStore& waiting);
  void FinishForAll();
  void OnAllFinished(const Status& finished);
  void Report(const Status& finished);

  StaticNode& node_;
  std::unique_ptr<StoreConnection> connection_;  // waits for the other nodes
  std::function<void(Status)> on_left_;
  bool counted_ = false;
  bool finished_ = false;
};

}  // namespace ddprun::rendezvous
