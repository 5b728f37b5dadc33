// How a round of a static job ends: failures, restarts, nodes that go, and the exit barrier.
#include <utility>

#include <asio/post.hpp>

#include "base/env.h"
#include "rendezvous/join_text.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/static/static_rendezvous.h"
#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

namespace {

using std::chrono::milliseconds;

// How long node 0 lets the other nodes read a failure before it acts on the failure, because the
// store ends with node 0.
constexpr milliseconds kSpreadTimeout{200};
// How long node 0 keeps its store after the last node has finished, for the others' last reads.
constexpr milliseconds kDrainTimeout{2000};
// How long a node that leaves may still read the last answer of a store that is lost.
constexpr milliseconds kLastAnswerTimeout{200};

// Returns a request that sets `key` if no node has set it yet.
Request CompareSet(std::string key, const std::string& value) {
  return KeyRequest(Op::kCompareSet, std::move(key), value);
}

}  // namespace

void StaticRendezvous::WatchRound(std::function<void(RoundEnd)> handler) {
  now_.on_failure = std::move(handler);
  asio::post(io_, [self = shared_from_this()] { self->DeliverFailure(); });
}

void StaticRendezvous::OnFailureNote(const Result<std::string>& note) {
  if (now_.left || now_.noted) return;
  now_.noted = true;
  if (note.has_value()) {
    now_.failure = ParseNote(*note);
    if (host()) return SpreadFailure(*note);
    TellSeen();
    return DeliverFailure();
  }
  now_.failure = RoundEnd{.node_rank = -1, .message = note.error().what};
  if (now_.on_left) return After(ending_, kLastAnswerTimeout, &StaticRendezvous::DeliverFailure);
  DeliverFailure();
}

void StaticRendezvous::TellSeen() {
  Tell(KeyRequest(Op::kSet, keys_.FailureSeen(round_, node_rank_)));
}

void StaticRendezvous::DeliverFailure() {
  if (!now_.failure || now_.failure_delivered || now_.left || !now_.on_failure) return;
  now_.failure_delivered = true;
  RoundEnd end = *now_.failure;
  if (end.node_rank == node_rank_) {
    if (now_.asked_end == end.kind) return;
    // Node 0 takes this node for lost although it lives. For this node, too, the job has failed
    // elsewhere.
    if (!now_.asked_end) {
      end.node_rank = -1;
      end.message = "node 0 lost the connection to this node's agent";
    }
  }
  // A copy: the handler may destroy everything.
  const auto handler = now_.on_failure;
  handler(end);
}

void StaticRendezvous::SpreadFailure(const std::string& note) {
  for (int node = 1; node < nnodes_; ++node) {
    Tell(CompareSet(keys_.Failure(round_, node), note));
  }
  After(spreading_, kSpreadTimeout, &StaticRendezvous::DeliverFailure);
  AwaitSeen();
}

void StaticRendezvous::OnAbandoned(const std::vector<std::string>& keys) {
  const std::string prefix = keys_.PresentPrefix();
  for (const std::string& key : keys) {
    if (!key.starts_with(prefix)) continue;
    const auto node = ParseInt(std::string_view(key).substr(prefix.size()));
    if (node && *node >= 1 && *node < nnodes_) OnNodeGone(static_cast<int>(*node));
  }
}

void StaticRendezvous::OnNodeGone(int node) {
  if (now_.left) return;
  if (round_ == 0 && now_.on_joined && !now_.assigned) {
    // The node may be started again.
    Tell(KeyRequest(Op::kDeleteKey, keys_.Node(node)));
    Tell(KeyRequest(Op::kDeleteKey, keys_.RoleInfo(round_, node)));
    if (now_.missing.insert(node).second) AwaitNode(node);
    return;
  }
  server_->Call(KeysRequest(Op::kCheck, {keys_.Left(round_, node)}),
                [self = shared_from_this(), node, round = round_](const Result<Reply>& reply) {
                  if (round != self->round_) return self->OnNodeGone(node);
                  self->OnNodeLost(node, reply.has_value() && reply->status == kCheckReady);
                });
}

void StaticRendezvous::OnNodeLost(int node, bool had_left) {
  if (stopped_ || now_.left || now_.refused) return;
  const std::string how =
      had_left ? "its workers had ended well" : "the connection to its agent was closed";
  const RoundEnd end{.node_rank = node,
                     .message = "node " + std::to_string(node) + " is gone: " + how};
  if (!lost_) lost_ = end;
  if (now_.on_joined && !now_.assigned) return RefuseRound();
  if (!had_left) Tell(CompareSet(keys_.Failure(round_, 0), ToNote(end)));
}

// Refuses the round, because a restart cannot bring back a lost node. The other nodes read the
// reason from the keys where they expect their ranks.
void StaticRendezvous::RefuseRound() {
  now_.assigned = now_.refused = true;
  Request refuse = KeysRequest(Op::kMultiSet, {});
  for (int node = 1; node < nnodes_; ++node) {
    refuse.keys.push_back(keys_.AssignedRanks(round_, node));
    refuse.values.push_back(ToNote(*lost_));
  }
  Tell(std::move(refuse));
  After(spreading_, kSpreadTimeout, &StaticRendezvous::FailForLostNode);
}

void StaticRendezvous::EndRound(RoundEnd end, std::function<void()> done) {
  now_.on_reported = std::move(done);
  now_.asked_end = end.kind;
  end.node_rank = node_rank_;
  // A single node uses the timer, too, because this call must not call a handler.
  After(ending_, alone() ? milliseconds(0) : options_.report_timeout,
        &StaticRendezvous::OnReportTime);
  if (alone()) {
    now_.failure = now_.failure.value_or(end);
    return;
  }
  if (now_.failure) {
    asio::post(io_, [self = shared_from_this(), round = round_] { self->OnEndTold(round); });
    return;
  }
  if (end.kind == RoundEnd::Kind::kJobFailed) return PublishEnd(end, round_);
  std::vector<std::string> nodes;
  for (int node = 0; node < nnodes_; ++node) nodes.push_back(keys_.Node(node));
  store().Call(KeysRequest(Op::kCheck, std::move(nodes)),
               [self = shared_from_this(), end, round = round_](const Result<Reply>& reply) {
                 const bool all_ours = !reply.has_value() || reply->status == kCheckReady;
                 self->PublishEnd(all_ours ? end : WithoutRestart(end), round);
               });
}

// Fails the job, because a static job needs all of its nodes.
void StaticRendezvous::Withdraw(RoundEnd end, std::function<void()> done) {
  end.kind = RoundEnd::Kind::kJobFailed;
  EndRound(std::move(end), std::move(done));
}

// `round` is the round that this node ended. The next one may have begun since.
void StaticRendezvous::PublishEnd(const RoundEnd& own, int round) {
  if (stopped_) return;
  // If node 0 runs ddprun, it copies its note to the others' keys. The first note stays.
  const int last = hosted_by_ddprun_ ? 0 : nnodes_ - 1;
  for (int node = 0; node < last; ++node) {
    Tell(CompareSet(keys_.Failure(round, node), ToNote(own)));
  }
  store().Call(CompareSet(keys_.Failure(round, last), ToNote(own)),
               [self = shared_from_this(), round](const Result<Reply>& reply) {
                 if (round == self->round_ && !self->stopped_) self->OnPublished(reply);
               });
}

void StaticRendezvous::OnPublished(const Result<Reply>& reply) {
  if (!reply.has_value() && !now_.failure && now_.asked_end != RoundEnd::Kind::kJobFailed) {
    return LoseRound(reply.error().what);
  }
  if (reply.has_value() && host()) OnFailureNote(reply->values.front());
  if (reply.has_value() && !now_.failure) {
    now_.failure = ParseNote(reply->values.front());
    TellSeen();
  }
  OnEndTold(round_);
}

// Waits longer before a restart, because a node that joins without knowing how the round ended
// would be out of step with the other nodes.
void StaticRendezvous::OnReportTime() {
  if (now_.failure || now_.asked_end == RoundEnd::Kind::kJobFailed) return OnReported();
  Say("waiting for node 0, which does not answer, to know how the round ended");
  After(ending_, options_.rules.join_timeout, &StaticRendezvous::OnNoEnd);
}

void StaticRendezvous::OnNoEnd() {
  LoseRound("node 0 did not answer within " + DurationText(options_.rules.join_timeout));
}

// Takes the job for failed, because this node cannot learn how the round ended.
void StaticRendezvous::LoseRound(const std::string& why) {
  now_.failure = RoundEnd{.node_rank = -1, .message = why};
  OnSpread();
}

void StaticRendezvous::OnEndTold(int round) {
  if (stopped_ || round != round_) return;
  if (host()) return AwaitSeen();
  OnSpread();
}

void StaticRendezvous::AwaitSeen() {
  unheard_.clear();
  for (int node = 1; node < nnodes_; ++node) unheard_.insert(node);
  if (now_.failure) unheard_.erase(now_.failure->node_rank);
  const std::set<int> asked = unheard_;
  for (const int node : asked) {
    const auto heard = [self = shared_from_this(), node, round = round_] {
      if (round != self->round_) return;
      self->unheard_.erase(node);
      if (self->unheard_.empty()) self->OnSpread();
    };
    server_->Call(KeysRequest(Op::kCheck, {keys_.Node(node)}),
                  [self = shared_from_this(), key = keys_.FailureSeen(round_, node),
                   heard](const Result<Reply>& reply) {
                    // A node without this key runs torchrun, which reads no failures.
                    if (reply.has_value() && reply->status != kCheckReady) return heard();
                    if (self->server_ == nullptr) return;
                    self->server_->Call(KeysRequest(Op::kWait, {key}),
                                        [heard](const Result<Reply>&) { heard(); });
                  });
  }
  if (asked.empty()) OnSpread();
}

void StaticRendezvous::OnSpread() {
  spreading_.cancel();
  const auto self = shared_from_this();  // the first handler may destroy everything
  DeliverFailure();
  OnReported();
}

void StaticRendezvous::OnReported() {
  ending_.cancel();
  if (const auto done = std::exchange(now_.on_reported, nullptr)) done();
}

void StaticRendezvous::Leave(std::function<void(Status)> done) {
  now_.on_left = std::move(done);
  if (alone()) {
    asio::post(io_, [self = shared_from_this()] { self->OnAllFinished({}); });
    return;
  }
  if (host()) return EnterBarrier();
  Tell(KeyRequest(Op::kSet, keys_.Left(round_, node_rank_)));
  // Waits on a second connection, because the first must stay free for a failure. The wait begins
  // before this node is counted, because torchrun's node 0 ends as soon as it has counted the last
  // node, and does not answer requests that it has not read by then.
  now_.barrier = std::make_unique<StoreConnection>(io_, options_.endpoint,
                                                   DeadlineAfter(options_.rules.join_timeout));
  now_.barrier->Call(KeysRequest(Op::kCheck, {keys_.LastFinished(round_)}),
                     Guarded([this](const Result<Reply>& reply) {
                       if (!reply.has_value()) return OnAllFinished(reply.error());
                       AwaitLast(*now_.barrier);
                       EnterBarrier();
                     }));
}

void StaticRendezvous::AwaitLast(AsyncStore& waiting) {
  waiting.Call(KeysRequest(Op::kWait, {keys_.LastFinished(round_)}),
               Guarded([this](const Result<Reply>& reply) {
                 OnAllFinished(reply.has_value() ? Status() : reply.error());
               }));
}

void StaticRendezvous::EnterBarrier() {
  Request count = KeyRequest(Op::kAdd, keys_.NumFinished(round_));
  count.number = 1;
  store().Call(std::move(count), Guarded([this](const Result<Reply>& reply) {
                 if (!reply.has_value()) return OnAllFinished(reply.error());
                 now_.leave_known = true;
                 if (reply->number == nnodes_) return FinishForAll();
                 if (host()) AwaitLast(*server_);
               }));
}

// Returns a handler that ignores answers to requests of an earlier round.
AsyncStore::Handler StaticRendezvous::Guarded(std::function<void(const Result<Reply>&)> then) {
  return [self = shared_from_this(), round = round_,
          then = std::move(then)](const Result<Reply>& reply) {
    if (round == self->round_ && !self->stopped_) then(reply);
  };
}

// Ends the barrier, because this node is the last: all nodes have ended well, even if the store is
// lost now. torchrun's node 0 ends as soon as the key is set, and may leave requests unanswered.
void StaticRendezvous::FinishForAll() {
  // The value is torch elastic's own.
  Tell(KeyRequest(Op::kSet, keys_.LastFinished(round_), "<val_ignored>"));
  // The answer to this request shows that the store has set the key.
  store().Call(KeysRequest(Op::kCheck, {keys_.LastFinished(round_)}),
               Guarded([this](const Result<Reply>&) { OnAllFinished({}); }));
}

void StaticRendezvous::OnAllFinished(const Status& finished) {
  if (stopped_ || now_.left) return;
  now_.left = finished.ok();
  if (now_.left && host() && !alone()) {
    server_->OnAllDisconnected(kDrainTimeout, [self = shared_from_this()] {
      if (const auto done = std::exchange(self->now_.on_left, nullptr)) done({});
    });
    return;
  }
  if (const auto done = std::exchange(now_.on_left, nullptr)) done(finished);
}

}  // namespace ddprun::rendezvous
