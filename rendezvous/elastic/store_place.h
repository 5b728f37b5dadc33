// Where the node of rank 0 opens a round's store. Pure.
#pragma once

#include <span>
#include <string>

#include <asio/ip/address.hpp>

namespace ddprun::rendezvous {

struct StorePlace {
  std::string address;         // by which the other nodes reach the store
  bool loopback_only = false;  // all nodes are on this machine
};

// A node's connection, as the coordinator sees it.
struct Connected {
  asio::ip::address peer;
  asio::ip::address own;  // the coordinator's end
  std::string wish;       // Hello::local_addr
};

// `members` are in the order of their node ranks; there is at least one. Takes an address that the
// coordinator sees, so that the node needs to know neither its name nor its addresses.
StorePlace ChooseStorePlace(std::span<const Connected> members);

}  // namespace ddprun::rendezvous
