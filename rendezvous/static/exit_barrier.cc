#include "rendezvous/static/exit_barrier.h"

#include <utility>

#include <asio/post.hpp>

namespace ddprun::rendezvous {

// How long node 0 keeps its store after the last node has finished, for the others' last reads.
constexpr std::chrono::milliseconds kDrainTimeout{2000};

void ExitBarrier::Reset() {
  connection_.reset();
  on_left_ = nullptr;
  counted_ = finished_ = false;
}

void ExitBarrier::Leave(std::function<void(Status)> done) {
  on_left_ = std::move(done);
  if (node_.alone()) {
    asio::post(node_.io, node_.InRound([this] { OnAllFinished({}); }));
    return;
  }
  if (node_.is_host()) return Enter();
  node_.Send(KeyRequest(Op::kSet, node_.keys.Left(node_.round, node_.rank)));
  // Waits on a second connection, because the first must stay free for a failure. The wait begins
  // before this node is counted, because torchrun's node 0 ends as soon as it has counted the last
  // node, and does not answer requests that it has not read by then.
  connection_ = node_.Connect(node_.options.rules.join_timeout);
  connection_->Call(KeysRequest(Op::kCheck, {node_.keys.LastFinished(node_.round)}),
                    node_.InRound([this](const Result<Reply>& reply) {
                      if (!reply.has_value()) return OnAllFinished(reply.error());
                      AwaitLast(*connection_);
                      Enter();
                    }));
}

void ExitBarrier::AwaitLast(AsyncStore& waiting) {
  waiting.Call(KeysRequest(Op::kWait, {node_.keys.LastFinished(node_.round)}),
               node_.InRound([this](const Result<Reply>& reply) {
                 OnAllFinished(reply.has_value() ? Status() : reply.error());
               }));
}

void ExitBarrier::Enter() {
  Request count = KeyRequest(Op::kAdd, node_.keys.NumFinished(node_.round));
  count.number = 1;
  node_.store().Call(std::move(count), node_.InRound([this](const Result<Reply>& reply) {
    if (!reply.has_value()) return OnAllFinished(reply.error());
    counted_ = true;
    if (reply->number == node_.nnodes) return FinishForAll();
    if (node_.is_host()) AwaitLast(*node_.server);
  }));
}

// Ends the barrier, because this node is the last: all nodes have ended well, even if the store is
// lost now. torchrun's node 0 ends as soon as the key is set, and may leave requests unanswered.
void ExitBarrier::FinishForAll() {
  const std::string key = node_.keys.LastFinished(node_.round);
  // The value is torch elastic's own.
  node_.Send(KeyRequest(Op::kSet, key, "<val_ignored>"));
  // The answer to this request shows that the store has set the key.
  node_.store().Call(KeysRequest(Op::kCheck, {key}),
                     node_.InRound([this](const Result<Reply>&) { OnAllFinished({}); }));
}

void ExitBarrier::OnAllFinished(const Status& finished) {
  if (finished_) return;
  finished_ = finished.ok();
  if (!finished_ || !node_.is_host() || node_.alone()) return Report(finished);
  node_.server->OnAllDisconnected(kDrainTimeout, node_.InRound([this] { Report({}); }));
}

void ExitBarrier::Report(const Status& finished) {
  if (const auto done = std::exchange(on_left_, nullptr)) done(finished);
}

}  // namespace ddprun::rendezvous
