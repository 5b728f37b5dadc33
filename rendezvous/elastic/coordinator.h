// Brings the nodes of c10d jobs together. Serves the control connections that come to a store's
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

#include "rendezvous/elastic/election.h"

namespace ddprun::rendezvous {

class StoreServer;

struct CoordinatorOptions {
  // The only job that is served; "" means any. An agent serves its own job only, because it ends
  // with that job.
  std::string run_id = {};
  // The hosts among which a leader of that job is elected (Hello::hosts); "" means that there is no
  // other host. Jobs with several hosts are served only after Lead().
  std::string hosts = {};
  // How long late nodes of an ended job are refused with the job's result. Afterwards the run id
  // may be used anew.
  std::chrono::milliseconds close_timeout{30'000};
  // How long a new connection may take to send its hello.
  std::chrono::milliseconds handshake_timeout{10'000};
  // One line for each round that starts or ends, and for each node that is refused. May be empty.
  std::function<void(const std::string& line)> on_log = {};
};

// Serves any number of jobs, told apart by their run ids, unless the options name one. Use it on
// the loop thread only. Destroying it closes the control connections: nodes of jobs that have not
// ended take the coordinator for lost.
class Coordinator {
 public:
  Coordinator(asio::io_context& io, CoordinatorOptions options);
  ~Coordinator();

  // Takes over connections of nodes that come to `server`. Either of the two may be destroyed
  // first.
  void ServeOn(StoreServer& server);

  // Begins to serve jobs with several hosts, until `leads` returns false; with an empty function
  // until now. Closes their connections then, so that their nodes look for the new leader.
  // `others_stopped` is for RoundState.
  void Lead(std::function<bool()> leads, ElectionTime others_stopped = {});
  // Answers a ballot for this host; those of other hosts come through ServeOn().
  Vote OnBallot(const Ballot& ballot);

  // Calls `handler` from the loop when all connected nodes know the results of their ended jobs, or
  // after `timeout`. A second call replaces the first.
  void WhenAllHeard(std::chrono::milliseconds timeout, std::function<void()> handler);

  size_t num_jobs() const;
  size_t num_nodes() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
