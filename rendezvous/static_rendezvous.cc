#include "rendezvous/static_rendezvous.h"

#include <utility>

#include <asio/post.hpp>

#include "base/env.h"
#include "rendezvous/failure_note.h"
#include "rendezvous/static_round.h"

namespace ddprun::rendezvous {

namespace {

using std::chrono::milliseconds;

// How long a failing node waits until the others have been told.
constexpr milliseconds kReportTimeout{1000};
// How long node 0 lets the others read a failure before it acts on it, since its end ends the
// store.
constexpr milliseconds kSpreadTimeout{200};
// How long node 0 keeps its store after the last node has finished, for the others' last reads.
constexpr milliseconds kDrainTimeout{2000};
// While this node leaves, the store may go away before its last answer has been looked at.
constexpr milliseconds kLastAnswerTimeout{200};

constexpr int kMaxNodes = 100'000;

Error UsageError(std::string title, std::string what, std::string hint, std::string page) {
  Error error;
  error.code = Code::kUsage;
  error.title = std::move(title);
  error.what = std::move(what);
  error.hint = std::move(hint);
  error.page = std::move(page);
  return error;
}

Status CheckOptions(const StaticOptions& options) {
  const std::string nnodes = std::to_string(options.nnodes);
  if (options.nnodes < 1 || options.nnodes > kMaxNodes) {
    return UsageError(
        "BAD NUMBER OF NODES",
        "--nnodes is " + nnodes + "; 1 to " + std::to_string(kMaxNodes) + " nodes can form a job.",
        "", "nnodes");
  }
  if (options.node_rank < 0 || options.node_rank >= options.nnodes) {
    return UsageError("BAD NODE RANK",
                      "--node_rank is " + std::to_string(options.node_rank) + " and --nnodes is " +
                          nnodes + ": node ranks are 0 to " + std::to_string(options.nnodes - 1) +
                          ".",
                      "Give every node its own --node_rank, beginning with 0.", "node-rank");
  }
  if (options.nnodes > 1 && (options.endpoint.host.empty() || options.endpoint.port == 0)) {
    return UsageError("ENDPOINT MISSING",
                      "With " + nnodes + " nodes every node must know where node 0 is.",
                      "Give --master_addr and --master_port (or --rdzv_endpoint), the same on "
                      "every node.",
                      "endpoint");
  }
  return {};
}

Request CompareSet(std::string key, const std::string& value) {
  Request request;
  request.op = Op::kCompareSet;
  request.key = std::move(key);
  request.value = value;
  return request;
}

Request WaitFor(std::string key) {
  Request request;
  request.op = Op::kWait;
  request.keys = {std::move(key)};
  return request;
}

}  // namespace

Result<std::unique_ptr<StaticRendezvous>> StaticRendezvous::Create(asio::io_context& io,
                                                                   StaticOptions options) {
  DDPRUN_TRY(CheckOptions(options));
  return std::unique_ptr<StaticRendezvous>(
      new StaticRendezvous(std::make_shared<Impl>(io, std::move(options))));
}

StaticRendezvous::StaticRendezvous(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

StaticRendezvous::~StaticRendezvous() {
  impl_->Stop();
}

void StaticRendezvous::Join(std::function<void(Result<Membership>)> done) {
  impl_->Join(std::move(done));
}

void StaticRendezvous::WatchRound(std::function<void(RoundEnd)> handler) {
  impl_->WatchRound(std::move(handler));
}

void StaticRendezvous::EndRound(RoundEnd::Kind kind,
                                const std::string& message,
                                std::function<void()> done) {
  impl_->EndRound(kind, message, std::move(done));
}

void StaticRendezvous::Leave(std::function<void(Status)> done) {
  impl_->Leave(std::move(done));
}

void StaticRendezvous::Withdraw(const std::string& message, std::function<void()> done) {
  // Its number of nodes is fixed: the others cannot go on without this one.
  EndRound(RoundEnd::Kind::kJobFailed, message, std::move(done));
}

const StoreServer* StaticRendezvous::worker_store() const {
  return impl_->worker_store();
}

StaticRendezvous::Impl::Impl(asio::io_context& io, StaticOptions options)
    : io_(io),
      options_(std::move(options)),
      keys_(options_.run_id),
      endpoint_(options_.endpoint),
      deadline_(io),
      progress_(io),
      ending_(io),
      spreading_(io) {
  if (endpoint_.host.empty()) endpoint_.host = "127.0.0.1";
}

void StaticRendezvous::Impl::Stop() {
  stopped_ = true;
  on_joined_ = nullptr;
  on_failure_ = nullptr;
  on_reported_ = nullptr;
  on_left_ = nullptr;
  deadline_.cancel();
  progress_.cancel();
  ending_.cancel();
  spreading_.cancel();
  // Through locals: their pending handlers hold this object and let go of it here.
  const auto resolve = std::move(resolve_);
  const auto assigned_watch = std::move(assigned_watch_);
  const auto failure_watch = std::move(failure_watch_);
  const auto connection = std::move(connection_);
  const auto server = std::move(server_);
  const auto round_server = std::move(round_server_);
}

const StoreServer* StaticRendezvous::Impl::worker_store() const {
  return round_server_ != nullptr ? round_server_.get() : server_.get();
}

AsyncStore& StaticRendezvous::Impl::store() const {
  if (host()) return *server_;
  return *connection_;
}

void StaticRendezvous::Impl::After(asio::steady_timer& timer,
                                   milliseconds time,
                                   void (Impl::*action)()) {
  timer.expires_after(time);
  timer.async_wait([self = shared_from_this(), action](const asio::error_code& error) {
    if (!error && !self->stopped_) (self.get()->*action)();
  });
}

void StaticRendezvous::Impl::Ask(Request request, std::function<void(const Reply&)> then) {
  store().Call(std::move(request), [self = shared_from_this(), round = round_,
                                    then = std::move(then)](Result<Reply> reply) {
    if (self->stopped_ || round != self->round_ || !self->on_joined_) return;
    if (!reply.has_value()) return self->FailJoin(std::move(reply).error());
    then(*reply);
  });
}

void StaticRendezvous::Impl::Tell(Request request) {
  store().Call(std::move(request), [](const Result<Reply>&) {});
}

void StaticRendezvous::Impl::WatchKey(const std::string& key,
                                      std::unique_ptr<StoreWatch>& watch,
                                      std::function<void(Result<std::string>)> then) {
  const auto guarded = [self = shared_from_this(), round = round_,
                        then = std::move(then)](Result<std::string> value) {
    if (!self->stopped_ && round == self->round_) then(std::move(value));
  };
  if (!host()) {
    watch = std::make_unique<StoreWatch>(io_, options_.endpoint,
                                         DeadlineAfter(options_.join_timeout), key, guarded);
    return;
  }
  server_->Call(WaitFor(key), [this, key, guarded](const Result<Reply>&) {
    Request get;
    get.op = Op::kGet;
    get.key = key;
    server_->Call(std::move(get), [guarded](Result<Reply> reply) {
      if (reply.has_value()) guarded(std::move(reply->values.front()));
    });
  });
}

void StaticRendezvous::Impl::WatchRound(std::function<void(RoundEnd)> handler) {
  on_failure_ = std::move(handler);
  asio::post(io_, [self = shared_from_this()] { self->DeliverFailure(); });
}

void StaticRendezvous::Impl::OnFailureNote(const Result<std::string>& note) {
  if (left_ || failure_) return;
  if (note.has_value()) {
    failure_ = ParseFailureNote(*note);
    if (host()) return SpreadFailure(*note);
    Request seen;
    seen.op = Op::kSet;
    seen.key = keys_.FailureSeen(round_, options_.node_rank);
    Tell(std::move(seen));
    return DeliverFailure();
  }
  failure_ = RoundEnd{.node_rank = -1, .message = note.error().what};
  if (on_left_) return After(ending_, kLastAnswerTimeout, &Impl::DeliverFailure);
  DeliverFailure();
}

void StaticRendezvous::Impl::DeliverFailure() {
  if (!failure_ || failure_delivered_ || left_ || !on_failure_) return;
  failure_delivered_ = true;
  // A copy: the handler may destroy everything.
  const auto handler = on_failure_;
  if (failure_->node_rank != options_.node_rank) handler(*failure_);
}

void StaticRendezvous::Impl::SpreadFailure(const std::string& note) {
  for (int node = 1; node < options_.nnodes; ++node) {
    Tell(CompareSet(keys_.Failure(round_, node), note));
  }
  After(spreading_, kSpreadTimeout, &Impl::DeliverFailure);
  AwaitSeen();
}

void StaticRendezvous::Impl::OnAbandoned(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    for (const int round : {round_, round_ + 1}) {
      const std::string prefix = keys_.FailurePrefix(round);
      if (!key.starts_with(prefix)) continue;
      const auto node = ParseInt(std::string_view(key).substr(prefix.size()));
      if (!node || *node < 1 || *node >= options_.nnodes) continue;
      if (round == round_) {
        OnNodeGone(static_cast<int>(*node));
      } else {
        // It was ahead of this node, which has yet to join that round.
        Forget(keys_.RoleInfo(round, static_cast<int>(*node)));
      }
    }
  }
}

void StaticRendezvous::Impl::Forget(std::string key) {
  Request forget;
  forget.op = Op::kDeleteKey;
  forget.key = std::move(key);
  Tell(std::move(forget));
}

void StaticRendezvous::Impl::OnNodeGone(int node) {
  if (left_ || failure_) return;
  if (on_joined_ && !assigned_) {
    // It may be started again.
    Forget(keys_.Node(node));
    Forget(keys_.RoleInfo(round_, node));
    if (missing_.insert(node).second) AwaitNode(node);
    return;
  }
  const RoundEnd gone{.node_rank = node,
                      .message = "node " + std::to_string(node) +
                                 " is gone: the connection to its agent was closed"};
  Tell(CompareSet(keys_.Failure(round_, 0), ToJson(gone)));
}

void StaticRendezvous::Impl::EndRound(RoundEnd::Kind kind,
                                      const std::string& message,
                                      std::function<void()> done) {
  on_reported_ = std::move(done);
  // Not at once even if there is nobody to tell: no handler is called from within this call.
  After(ending_, alone() ? milliseconds(0) : kReportTimeout, &Impl::OnReported);
  if (alone()) return;
  const auto told = [self = shared_from_this()](const Result<Reply>&) {
    if (self->host()) return self->AwaitSeen();
    self->OnReported();
  };
  if (failure_) {
    asio::post(io_, [told] { told(Reply()); });
    return;
  }
  const RoundEnd own{.kind = kind, .node_rank = options_.node_rank, .message = message};
  // Node 0 tells the others, if it is one of ours. The first note stays.
  const int last = hosted_by_ddprun_ ? 0 : options_.nnodes - 1;
  for (int node = 0; node < last; ++node) {
    Tell(CompareSet(keys_.Failure(round_, node), ToJson(own)));
  }
  store().Call(CompareSet(keys_.Failure(round_, last), ToJson(own)), told);
}

void StaticRendezvous::Impl::AwaitSeen() {
  unheard_.clear();
  for (int node = 1; node < options_.nnodes; ++node) unheard_.insert(node);
  if (failure_) unheard_.erase(failure_->node_rank);
  const std::set<int> asked = unheard_;
  for (const int node : asked) {
    const auto heard = [self = shared_from_this(), node] {
      self->unheard_.erase(node);
      if (self->unheard_.empty()) self->OnSpread();
    };
    Request check;
    check.op = Op::kCheck;
    check.keys = {keys_.Node(node)};
    server_->Call(std::move(check),
                  [self = shared_from_this(), node, heard](const Result<Reply>& reply) {
                    // A torchrun node does not listen.
                    if (reply.has_value() && reply->status != kCheckReady) return heard();
                    if (self->server_ == nullptr) return;
                    self->server_->Call(WaitFor(self->keys_.FailureSeen(self->round_, node)),
                                        [heard](const Result<Reply>&) { heard(); });
                  });
  }
  if (asked.empty()) OnSpread();
}

void StaticRendezvous::Impl::OnSpread() {
  spreading_.cancel();
  const auto self = shared_from_this();  // the first handler may destroy everything
  OnReported();
  DeliverFailure();
}

void StaticRendezvous::Impl::OnReported() {
  ending_.cancel();
  if (const auto done = std::exchange(on_reported_, nullptr)) done();
}

void StaticRendezvous::Impl::Leave(std::function<void(Status)> done) {
  on_left_ = std::move(done);
  if (alone()) {
    asio::post(io_, [self = shared_from_this()] { self->OnAllFinished(Reply()); });
    return;
  }
  Request count;
  count.op = Op::kAdd;
  count.key = keys_.NumFinished(round_);
  count.number = 1;
  const auto self = shared_from_this();
  store().Call(std::move(count), [self](Result<Reply> reply) {
    if (!reply.has_value()) return self->OnAllFinished(std::move(reply));
    if (reply->number == self->options_.nnodes) {
      Request last;
      last.op = Op::kSet;
      last.key = self->keys_.LastFinished(self->round_);
      last.value = "<val_ignored>";  // torch elastic's own text
      self->Tell(std::move(last));
    }
    self->store().Call(WaitFor(self->keys_.LastFinished(self->round_)),
                       [self](const Result<Reply>& finished) { self->OnAllFinished(finished); });
  });
}

void StaticRendezvous::Impl::OnAllFinished(const Result<Reply>& reply) {
  if (stopped_) return;
  left_ = reply.has_value();
  if (left_ && host() && !alone()) {
    server_->OnAllDisconnected(kDrainTimeout, [self = shared_from_this()] {
      if (const auto done = std::exchange(self->on_left_, nullptr)) done({});
    });
    return;
  }
  const auto done = std::exchange(on_left_, nullptr);
  if (!done) return;
  if (left_) return done({});
  done(reply.error());
}

}  // namespace ddprun::rendezvous
