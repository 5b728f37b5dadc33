// Lets this host vote, and lead when a majority of the hosts has chosen it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "rendezvous/elastic/election.h"
#include "rendezvous/net/address.h"
#include "rendezvous/net/gate.h"

namespace ddprun::rendezvous {

// Returns a number that no other process has.
uint64_t RandomId();

// Use it on the loop thread only. Destroying it drops the handlers and asks nobody any longer.
class Leadership {
 public:
  struct Handlers {
    std::function<Vote(const Ballot&)> own_vote;
    // This host begins or ceases to lead. A lease may end before the handler is called.
    std::function<void(bool leads)> on_change;
  };

  Leadership(asio::io_context& io,
             std::vector<HostPort> hosts,
             std::shared_ptr<Gate> gate,
             Campaign::Rules rules,
             Handlers handlers);
  ~Leadership();

  // Returns whether this host's lease has not ended.
  bool Leads() const;
  // Returns whether no host has led before this one.
  bool is_first() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
