// One node of a static job without workers, for tests with nodes of another launcher: joins,
// prints its membership as JSON, leaves.
// Usage: static_node_main NODE_RANK NNODES LOCAL_WORLD_SIZE HOST:PORT
#include <cstdio>
#include <string>

#include <asio/io_context.hpp>

#include "rendezvous/backends.h"

namespace {

using ddprun::Render;
using ddprun::Result;
using ddprun::rendezvous::kStaticBackend;
using ddprun::rendezvous::Membership;

void Print(const Membership& membership) {
  std::printf("{\"base_rank\": %d, \"world_size\": %d, \"role_base_rank\": %d}\n",
              membership.base_rank, membership.world_size, membership.role_base_rank);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  ddprun::rendezvous::RendezvousOptions options;
  options.node_rank = std::stoi(argv[1]);
  options.rules.max_nodes = std::stoi(argv[2]);
  options.local_world_size = std::stoi(argv[3]);
  options.endpoint = *ddprun::rendezvous::ParseHostPort(argv[4]);
  options.rules.join_timeout = std::chrono::seconds(100);
  asio::io_context io;
  auto rendezvous = *kStaticBackend.make(io, options);
  int exit_status = 1;
  rendezvous->Join([&](Result<Membership> joined) {
    if (!joined.has_value()) {
      std::fputs(Render(joined.error()).c_str(), stderr);
      return io.stop();
    }
    Print(*joined);
    rendezvous->Leave([&](const ddprun::Status& left) {
      if (left.ok()) exit_status = 0;
      if (!left.ok()) std::fputs(Render(left.error()).c_str(), stderr);
      io.stop();
    });
  });
  io.run();
  return exit_status;
}
