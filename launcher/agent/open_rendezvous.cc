#include "launcher/agent/open_rendezvous.h"

#include "rendezvous/static_rendezvous.h"

namespace ddprun::launcher {

namespace {

// torchrun's default port for several nodes, which all of them must know beforehand.
constexpr uint16_t kDefaultPort = 29500;

}  // namespace

Result<std::unique_ptr<rendezvous::Rendezvous>> OpenRendezvous(asio::io_context& io,
                                                               const AgentPlan& plan,
                                                               const Log& log) {
  const Options& options = plan.options;
  const bool several = options.several_nodes();
  rendezvous::StaticOptions wanted;
  wanted.nnodes = options.max_nodes;
  wanted.node_rank = options.node_rank.value_or(0);
  wanted.local_world_size = plan.local_world_size;
  wanted.run_id = plan.run_id;
  wanted.endpoint = {options.master_addr, options.master_port.value_or(several ? kDefaultPort : 0)};
  wanted.on_progress = [&log](const std::string& line) { log.Info(line); };
  DDPRUN_ASSIGN(std::unique_ptr<rendezvous::Rendezvous> opened,
                rendezvous::StaticRendezvous::Create(io, std::move(wanted)));
  return opened;
}

}  // namespace ddprun::launcher
