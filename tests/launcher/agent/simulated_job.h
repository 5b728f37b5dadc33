// Runs a job of one agent in simulated time, and checks that the agent keeps its promises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/agent/agent_state.h"
#include "launcher/agent/group_state.h"

namespace ddprun::launcher {

struct SimulatedEnd {
  int exit_code = 0;
  std::vector<std::string> violations;  // empty means that all promises were kept
  std::vector<std::string> trace;       // a line for each event
  std::string screen;                   // the user's terminal
};

// `seed` decides the kind of job and all events.
SimulatedEnd RunSimulatedJob(uint64_t seed,
                             const AgentTable& agent_table = kAgentTable,
                             const GroupTable& group_table = kGroupTable);

}  // namespace ddprun::launcher
