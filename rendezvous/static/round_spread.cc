#include "rendezvous/static/round_spread.h"

#include <utility>

#include <asio/post.hpp>

#include "rendezvous/join_text.h"
#include "rendezvous/peer_json.h"

namespace ddprun::rendezvous {

namespace {

using std::chrono::milliseconds;

// How long a node that leaves may still read the last answer of a store that is lost.
constexpr milliseconds kLastAnswerTimeout{200};

}  // namespace

RoundSpread::RoundSpread(StaticNode& node, const ExitBarrier& barrier)
    : node_(node), barrier_(barrier), ending_(node.io), spreading_(node.io) {}

void RoundSpread::Reset() {
  if (now_.end && now_.end->kind == RoundEnd::Kind::kRestart) ++restarts_;
  now_ = {};
  ending_.cancel();
  spreading_.cancel();
}

void RoundSpread::Watch() {
  node_.WatchKey(node_.keys.Failure(node_.round, node_.rank), now_.watch,
                 [this](const Result<std::string>& note) { OnNote(note); });
}

void RoundSpread::WatchRound(std::function<void(RoundEnd)> handler) {
  now_.on_end = std::move(handler);
  asio::post(node_.io, node_.InRound([this] { Deliver(); }));
}

void RoundSpread::OnNote(const Result<std::string>& note) {
  if (barrier_.finished() || now_.has_read_key) return;
  now_.has_read_key = true;
  if (note.has_value()) {
    now_.end = ParseNote(*note);
    if (node_.is_host()) return CopyToAll(*note);
    ConfirmEnd();
    return Deliver();
  }
  now_.end = RoundEnd{.node_rank = -1, .message = note.error().what};
  if (!barrier_.waiting()) return Deliver();
  node_.After(ending_, kLastAnswerTimeout, [this] { Deliver(); });
}

void RoundSpread::ConfirmEnd() {
  node_.Send(KeyRequest(Op::kSet, node_.keys.FailureSeen(node_.round, node_.rank)));
}

void RoundSpread::Deliver() {
  if (!now_.end || now_.delivered || barrier_.finished() || !now_.on_end) return;
  now_.delivered = true;
  RoundEnd end = *now_.end;
  if (end.node_rank == node_.rank) {
    if (now_.asked == end.kind) return;
    // Node 0 takes this node for lost although it lives. For this node, too, the job has failed
    // elsewhere.
    if (!now_.asked) {
      end.node_rank = -1;
      end.message = "node 0 lost the connection to this node's agent";
    }
  }
  // A copy: the handler may destroy everything.
  const auto handler = now_.on_end;
  handler(end);
}

void RoundSpread::CopyToAll(const std::string& note) {
  for (int node = 1; node < node_.nnodes; ++node) {
    node_.Send(KeyRequest(Op::kCompareSet, node_.keys.Failure(node_.round, node), note));
  }
  node_.After(spreading_, kSpreadTimeout, [this] { Deliver(); });
  AwaitConfirmations();
}

void RoundSpread::EndRound(RoundEnd end, std::function<void()> done) {
  now_.on_reported = std::move(done);
  now_.asked = end.kind;
  end.node_rank = node_.rank;
  // A single node uses the timer, too, because this call must not call a handler.
  node_.After(ending_, node_.alone() ? milliseconds(0) : node_.options.report_timeout,
              [this] { OnReportTime(); });
  if (node_.alone()) {
    now_.end = now_.end.value_or(end);
    return;
  }
  if (now_.end) return asio::post(node_.io, node_.InRound([this] { OnEndKnown(); }));
  if (end.kind == RoundEnd::Kind::kJobFailed) return Publish(end, node_.round);
  std::vector<std::string> nodes;
  for (int node = 0; node < node_.nnodes; ++node) nodes.push_back(node_.keys.Node(node));
  node_.store().Call(
      KeysRequest(Op::kCheck, std::move(nodes)),
      [this, self = node_.owner.lock(), end, round = node_.round](const Result<Reply>& reply) {
        const bool all_ours = !reply.has_value() || reply->status == kCheckReady;
        if (!node_.stopped) Publish(all_ours ? end : WithoutRestart(end), round);
      });
}

// `round` is the round that this node ended. The next one may have begun since.
void RoundSpread::Publish(const RoundEnd& own, int round) {
  // If node 0 runs ddprun, it copies its note to the others' keys. The first note stays.
  const int last = node_.hosted_by_ddprun.value_or(false) ? 0 : node_.nnodes - 1;
  const auto set = [&](int node) {
    return KeyRequest(Op::kCompareSet, node_.keys.Failure(round, node), ToNote(own));
  };
  for (int node = 0; node < last; ++node) node_.Send(set(node));
  node_.store().Call(set(last),
                     [this, self = node_.owner.lock(), round](const Result<Reply>& reply) {
                       if (round == node_.round && !node_.stopped) OnPublished(reply);
                     });
}

void RoundSpread::OnPublished(const Result<Reply>& reply) {
  if (!reply.has_value() && !now_.end && now_.asked != RoundEnd::Kind::kJobFailed) {
    return FailRound(reply.error().what);
  }
  if (reply.has_value() && node_.is_host()) OnNote(reply->values.front());
  if (reply.has_value() && !now_.end) {
    now_.end = ParseNote(reply->values.front());
    ConfirmEnd();
  }
  OnEndKnown();
}

// Waits longer before a restart, because a node that joins without knowing how the round ended
// would be out of step with the other nodes.
void RoundSpread::OnReportTime() {
  if (now_.end || now_.asked == RoundEnd::Kind::kJobFailed) return OnReported();
  node_.ReportLine("waiting for node 0, which does not answer, to know how the round ended");
  const auto limit = node_.options.rules.join_timeout;
  node_.After(ending_, limit,
              [this, limit] { FailRound("node 0 did not answer within " + DurationText(limit)); });
}

// Takes the job for failed, because this node cannot learn how the round ended.
void RoundSpread::FailRound(const std::string& why) {
  now_.end = RoundEnd{.node_rank = -1, .message = why};
  OnSpread();
}

void RoundSpread::OnEndKnown() {
  if (node_.is_host()) return AwaitConfirmations();
  OnSpread();
}

void RoundSpread::AwaitConfirmations() {
  now_.unconfirmed.clear();
  for (int node = 1; node < node_.nnodes; ++node) now_.unconfirmed.insert(node);
  if (now_.end) now_.unconfirmed.erase(now_.end->node_rank);
  if (now_.unconfirmed.empty()) return OnSpread();
  for (const int node : now_.unconfirmed) {
    const auto confirmed = node_.InRound([this, node](const Result<Reply>&) {
      now_.unconfirmed.erase(node);
      if (now_.unconfirmed.empty()) OnSpread();
    });
    node_.server->Call(KeysRequest(Op::kCheck, {node_.keys.Node(node)}),
                       node_.InRound([this, key = node_.keys.FailureSeen(node_.round, node),
                                      confirmed](const Result<Reply>& reply) {
                         // A node without this key runs torchrun, which reads no failures.
                         if (reply.has_value() && reply->status != kCheckReady)
                           return confirmed(reply);
                         node_.server->Call(KeysRequest(Op::kWait, {key}), confirmed);
                       }));
  }
}

void RoundSpread::OnSpread() {
  spreading_.cancel();
  const auto self = node_.owner.lock();  // the first handler may destroy everything
  Deliver();
  OnReported();
}

void RoundSpread::OnReported() {
  ending_.cancel();
  if (const auto done = std::exchange(now_.on_reported, nullptr)) done();
}

}  // namespace ddprun::rendezvous
