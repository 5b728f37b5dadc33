// Which back end a node uses, from what its command line says.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::rendezvous {

// torchrun's names; the defaults are its defaults.
struct RendezvousOptions {
  std::string backend = "static";  // or "c10d"
  std::string run_id = "none";
  int min_nodes = 1;
  int max_nodes = 1;
  std::optional<int> node_rank = {};  // static: needed by all but node 0; c10d: a wish
  int local_world_size = 1;
  std::string role = "default";
  int max_restarts = 0;
  std::string endpoint;  // c10d: host[:port]; empty: localhost, port 29400
  // static: where node 0's store is; without a port 29500, or a free one on a single node.
  std::string master_addr = "127.0.0.1";
  std::optional<uint16_t> master_port = {};
  std::string local_addr;
  // --rdzv_conf: join_timeout, last_call_timeout, close_timeout, keep_alive_interval, timeout (all
  // in seconds), keep_alive_max_attempt, is_host. torchrun's other keys do nothing here.
  std::map<std::string, std::string> conf;
  std::function<void(const std::string& line)> on_progress;
  std::function<void(const std::string& line)> on_debug = {};  // c10d: every control message
};

// kUsage names the option that is wrong (pages "endpoint", "nnodes", "node-rank", "bad-value").
Result<std::unique_ptr<Rendezvous>> MakeRendezvous(asio::io_context& io,
                                                   const RendezvousOptions& options);

}  // namespace ddprun::rendezvous
