// The rendezvous that the options ask for.
#pragma once

#include <memory>

#include <asio/io_context.hpp>

#include "base/log.h"
#include "launcher/agent/agent_plan.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// Nothing happens before its Join. `log`, which must outlive it, gets a line about a wait.
Result<std::unique_ptr<rendezvous::Rendezvous>> OpenRendezvous(asio::io_context& io,
                                                               const AgentPlan& plan,
                                                               const Log& log);

}  // namespace ddprun::launcher
