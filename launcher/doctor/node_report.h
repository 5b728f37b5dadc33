// The report of `ddprun doctor --nodes`: what nodes say of themselves and of their links, and which
// node or link is bad. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "launcher/doctor/finding.h"

namespace ddprun::launcher {

struct NodeFacts {
  int node = 0;
  std::string host = {};  // its name, by which others look for it
  std::vector<std::string> addresses = {};
  std::string interface = {};  // of --network_interface: links are tested at its address, the first
  uint16_t port = 0;           // of its LinkServer
  int mtu = 0;                 // of the interface of its first address; 0 means unknown
  std::string ddprun = {};
  std::string trainer = {};  // versions of ddp-trainer and LibTorch; "" means that it has none
  int64_t user = 0;
  std::string folder = {};  // where it was started
  int64_t free_bytes = 0;   // of the folder's file system

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(NodeFacts,
                                 node,
                                 host,
                                 addresses,
                                 interface,
                                 port,
                                 mtu,
                                 ddprun,
                                 trainer,
                                 user,
                                 folder,
                                 free_bytes)
};

// One direction of a link: from the node that connects.
struct LinkFacts {
  int from = 0;
  int to = 0;
  std::string name_problem = {};  // "node2 is 10.0.0.9 there"; "" means that the name is right
  std::string problem = {};       // "refuses: Connection timed out"; "" means that it works
  double latency_us = 0;          // there and back, the least
  double mbit_per_s = 0;
  double clock_ms = 0;  // the clock of `to` minus that of `from`

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(
      LinkFacts, from, to, name_problem, problem, latency_us, mbit_per_s, clock_ms)
};

struct NodesTest {
  std::vector<NodeFacts> nodes = {};      // those that came, in order of their numbers
  std::vector<LinkFacts> links = {};      // their `from` and `to` are places in `nodes`
  std::vector<std::string> missing = {};  // nodes that did not come in time
  std::vector<std::string> silent = {};   // nodes that came, and reported no links
  std::vector<int> without_file = {};     // places of nodes that do not see the first node's file
  std::string file_problem = {};          // why the first node could not write it; "" if it could
};

// Returns findings, the bad ones first.
std::vector<Finding> JudgeNodes(const NodesTest& test);

// Returns a table with a line a node, at most 80 columns wide.
std::string NodesTable(const NodesTest& test);

}  // namespace ddprun::launcher
