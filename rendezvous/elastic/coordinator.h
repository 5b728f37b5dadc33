// Brings the nodes of c10d jobs together: serves the control connections that come to a store's
// port, in the agent of one node or in `ddprun store`.
//
//   Coordinator coordinator(io, {});
//   coordinator.ServeOn(*server);
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

namespace ddprun::rendezvous {

class StoreServer;

struct CoordinatorOptions {
  // How long a job that has ended refuses late-comers with its result; afterwards its run id may
  // be used anew.
  std::chrono::milliseconds close_timeout{30'000};
  // Until a new connection has said whose node it is.
  std::chrono::milliseconds handshake_timeout{10'000};
  // One line for each round that starts or ends, and for each node that is refused. May be empty.
  std::function<void(const std::string& line)> on_log = {};
};

// Any number of jobs, told apart by their run ids. Loop thread only. Destroying it closes the
// control connections: nodes of jobs that have not ended take the rendezvous for lost.
class Coordinator {
 public:
  Coordinator(asio::io_context& io, CoordinatorOptions options);
  ~Coordinator();

  // Takes over the connections of nodes that come to `server`, which may live longer or shorter.
  void ServeOn(StoreServer& server);

  // Calls `handler` from the loop once every connected node knows the result of its job that ended,
  // or after `timeout`. One at a time.
  void WhenAllHeard(std::chrono::milliseconds timeout, std::function<void()> handler);

  size_t num_jobs() const;
  size_t num_nodes() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
