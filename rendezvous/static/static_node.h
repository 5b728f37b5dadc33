// Internal to kStaticBackend: what the parts of a node share.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/rendezvous.h"
#include "rendezvous/rendezvous_options.h"
#include "rendezvous/static/job_keys.h"
#include "rendezvous/store/store_connection.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

// How long node 0 lets the other nodes read a failure before it acts on the failure, because the
// store ends with node 0.
inline constexpr std::chrono::milliseconds kSpreadTimeout{200};

// This node's place in the job, its access to the job's store, and the join that it waits for.
struct StaticNode {
  StaticNode(asio::io_context& loop, RendezvousOptions from);

  bool alone() const { return nnodes == 1; }
  bool is_host() const { return rank == 0; }
  bool joining() const { return on_joined != nullptr; }
  AsyncStore& store() const;

  void BeginRound(std::weak_ptr<void> whole, std::function<void(Result<Membership>)> done);
  // Ends the join, if it has not ended yet.
  void EndJoin(Result<Membership> result);
  void Stop();

  // Returns a handler that calls `then` unless Stop() was called or the next round has begun. The
  // handler keeps the owner alive.
  template <typename Then>
  auto InRound(Then then) {
    return [this, self = owner.lock(), asked = round, then = std::move(then)](auto&&... args) {
      if (!stopped && asked == round) then(std::forward<decltype(args)>(args)...);
    };
  }
  void After(asio::steady_timer& timer,
             std::chrono::milliseconds time,
             std::function<void()> action);
  // Sends a request of the join. If the answer is an Error, the join fails with it.
  void Ask(Request request, std::function<void(const Reply&)> then);
  // Sends a request and ignores the answer.
  void Send(Request request);
  // Returns a further connection to node 0's store, which must come about in `timeout`.
  std::unique_ptr<StoreConnection> Connect(std::chrono::milliseconds timeout) const;
  // Calls `then` with the key's value when the key is set. On nodes other than 0, calls it with an
  // Error if the store is lost.
  void WatchKey(const std::string& key,
                std::unique_ptr<StoreWatch>& watch,
                std::function<void(Result<std::string>)> then);
  // Reports a line about the wait, unless it is empty or the last line of this round.
  void ReportLine(const std::string& line);

  asio::io_context& io;
  const RendezvousOptions options;
  const int nnodes;
  const int rank;
  const JobKeys keys;
  std::weak_ptr<void> owner;                    // the StaticRendezvous that has this node
  std::unique_ptr<StoreServer> server;          // on node 0
  std::unique_ptr<StoreServer> round_server;    // on node 0: the workers' store of later rounds
  std::unique_ptr<StoreConnection> connection;  // on the other nodes: to node 0's store
  std::optional<bool> hosted_by_ddprun;         // whether ddprun's node 0 hosts the store, if known
  bool stopped = false;
  int round = -1;
  std::function<void(Result<Membership>)> on_joined;
  asio::steady_timer deadline;  // of the join
  asio::steady_timer progress;  // until the next line about the join
  std::string last_line;
};

}  // namespace ddprun::rendezvous
