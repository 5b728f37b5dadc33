#include "launcher/agent/open_rendezvous.h"

#include "rendezvous/elastic/make_rendezvous.h"

namespace ddprun::launcher {

Result<std::unique_ptr<rendezvous::Rendezvous>> OpenRendezvous(asio::io_context& io,
                                                               const AgentPlan& plan,
                                                               const Log& log) {
  const Options& options = plan.options;
  return rendezvous::MakeRendezvous(
      io, {.backend = options.rdzv_backend,
           .run_id = plan.run_id,
           .min_nodes = options.min_nodes,
           .max_nodes = options.max_nodes,
           .node_rank = options.node_rank,
           .local_world_size = plan.local_world_size,
           .role = options.role,
           .max_restarts = options.max_restarts,
           .endpoint = options.rdzv_endpoint,
           .master_addr = options.master_addr,
           .master_port = options.master_port,
           .local_addr = options.local_addr,
           .conf = options.rdzv_conf,
           .on_progress = [&log](const std::string& line) { log.Info(line); }});
}

}  // namespace ddprun::launcher
