// How the agents of a job's nodes tell each other which workers were lost and get a replacement:
// by numbered keys in the store of the round's workers. All agents see the losses in one order. A
// node that takes the place of a lost one sees those from its own first one on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "rendezvous/rendezvous.h"
#include "rendezvous/rendezvous_options.h"
#include "rendezvous/store/store_connection.h"

namespace ddprun::launcher {

// A worker that a signal has ended.
struct Loss {
  int generation = 0;  // of the process that replaces it; counts the losses of the round from 1
  int node_rank = 0;
  int local_rank = 0;
  int rank = 0;  // in the job
};

// Use it on the loop thread only. Destroying it drops the handlers.
class LossBoard {
 public:
  struct Handlers {
    // Called for each loss of the round, also for those that this agent has announced.
    std::function<void(const Loss&)> on_loss;
    // Called once if the store cannot be reached any longer, with the reason.
    std::function<void(const std::string&)> on_failed;
  };

  LossBoard(asio::io_context& io,
            const rendezvous::RendezvousOptions& options,
            const rendezvous::Membership& membership,
            Handlers handlers);

  // Tells all agents of a loss on this node. Its generation does not count.
  void Announce(const Loss& loss);
  bool failed() const { return failed_; }

 private:
  std::string KeyOf(const std::string& name) const { return prefix_ + name; }
  void Await(int generation);
  void OnNext(const rendezvous::Reply& reply);
  void Fail(const std::string& reason);

  const std::string prefix_;
  const Handlers handlers_;
  bool failed_ = false;
  int next_ = 0;                           // the generation that is awaited; 0: none yet
  rendezvous::StoreConnection announces_;  // apart, because a wait holds up later requests
  rendezvous::StoreConnection waits_;
};

// Opens the board of a round; a job has none if this is empty.
using OpenLossBoard = std::function<std::unique_ptr<LossBoard>(
    const rendezvous::RendezvousOptions&, const rendezvous::Membership&, LossBoard::Handlers)>;

}  // namespace ddprun::launcher
