#include "rendezvous/static_rendezvous.h"

#include <utility>

#include <asio/post.hpp>

#include "rendezvous/static_round.h"
#include "rendezvous/store/request.h"

namespace ddprun::rendezvous {

namespace {

using std::chrono::milliseconds;

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
      identity_(MakeIdentity()),
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
  const auto barrier = std::move(barrier_);
  const auto presence = std::move(presence_);
  const auto twin = std::move(twin_);
  const auto connection = std::move(connection_);
  const auto server = std::move(server_);
  const auto round_server = std::move(round_server_);
}

bool StaticRendezvous::may_go() const {
  return impl_->may_go();
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
  server_->Call(KeysRequest(Op::kWait, {key}), [this, key, guarded](const Result<Reply>&) {
    server_->Call(KeyRequest(Op::kGet, key), [guarded](Result<Reply> reply) {
      if (reply.has_value()) guarded(std::move(reply->values.front()));
    });
  });
}

}  // namespace ddprun::rendezvous
