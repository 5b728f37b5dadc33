// SEAM: a back end, which makes the rendezvous of a node.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/rendezvous_options.h"

namespace ddprun::rendezvous {

struct Backend {
  std::string_view name;  // of --rdzv_backend
  // true: the command line gives the number of nodes and the rank of each. false: both are decided
  // when the nodes meet.
  bool fixed;
  uint16_t port;  // of the endpoint, if the command line gives none
  std::chrono::milliseconds join_timeout;
  // Makes a node's rendezvous, which stops when the last copy of the pointer is gone. Error: kUsage
  // (pages "nnodes", "node-rank", "endpoint") if the options contradict each other.
  Result<std::shared_ptr<Rendezvous>> (*make)(asio::io_context& io, RendezvousOptions options);
};

}  // namespace ddprun::rendezvous
