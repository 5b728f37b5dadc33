#include "rendezvous/static/static_node.h"

namespace ddprun::rendezvous {

StaticNode::StaticNode(asio::io_context& loop, RendezvousOptions from)
    : io(loop),
      options(std::move(from)),
      nnodes(options.rules.max_nodes),
      rank(options.node_rank.value_or(0)),
      keys(options.run_id),
      deadline(io),
      progress(io) {}

AsyncStore& StaticNode::store() const {
  if (is_host()) return *server;
  return *connection;
}

void StaticNode::BeginRound(std::weak_ptr<void> whole,
                            std::function<void(Result<Membership>)> done) {
  owner = std::move(whole);
  ++round;
  on_joined = std::move(done);
  last_line.clear();
}

void StaticNode::EndJoin(Result<Membership> result) {
  deadline.cancel();
  progress.cancel();
  if (const auto done = std::exchange(on_joined, nullptr)) done(std::move(result));
}

void StaticNode::Stop() {
  stopped = true;
  on_joined = nullptr;
  deadline.cancel();
  progress.cancel();
  connection.reset();
  server.reset();
  round_server.reset();
}

void StaticNode::After(asio::steady_timer& timer,
                       std::chrono::milliseconds time,
                       std::function<void()> action) {
  timer.expires_after(time);
  timer.async_wait(InRound([action = std::move(action)](const asio::error_code& error) {
    if (!error) action();
  }));
}

void StaticNode::Ask(Request request, std::function<void(const Reply&)> then) {
  store().Call(std::move(request), InRound([this, then = std::move(then)](Result<Reply> reply) {
                 if (!joining()) return;
                 if (!reply.has_value()) return EndJoin(std::move(reply).error());
                 then(*reply);
               }));
}

void StaticNode::Send(Request request) {
  store().Call(std::move(request), [](const Result<Reply>&) {});
}

std::unique_ptr<StoreConnection> StaticNode::Connect(std::chrono::milliseconds timeout) const {
  return std::make_unique<StoreConnection>(io, options.endpoint, options.gate,
                                           DeadlineAfter(timeout));
}

void StaticNode::WatchKey(const std::string& key,
                          std::unique_ptr<StoreWatch>& watch,
                          std::function<void(Result<std::string>)> then) {
  const auto guarded = InRound(std::move(then));
  if (!is_host()) {
    watch = std::make_unique<StoreWatch>(io, options.endpoint, options.gate,
                                         DeadlineAfter(options.rules.join_timeout), key, guarded);
    return;
  }
  server->Call(KeysRequest(Op::kWait, {key}), InRound([this, key, guarded](const Result<Reply>&) {
                 server->Call(KeyRequest(Op::kGet, key), [guarded](Result<Reply> reply) {
                   if (reply.has_value()) guarded(std::move(reply->values.front()));
                 });
               }));
}

void StaticNode::ReportLine(const std::string& line) {
  if (line.empty() || line == last_line || !options.on_progress) return;
  last_line = line;
  options.on_progress(line);
}

}  // namespace ddprun::rendezvous
