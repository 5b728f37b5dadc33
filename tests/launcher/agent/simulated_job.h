// A job of one agent from beginning to end in simulated time, and whether all went as promised.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/agent/agent_state.h"
#include "launcher/agent/group_state.h"

namespace ddprun::launcher {

struct SimulatedEnd {
  int exit_code = 0;
  std::vector<std::string> violations;  // empty: all promises were kept
  std::vector<std::string> trace;       // what happened, a line each
  std::string screen;                   // what the user saw
};

// The seed decides about everything: what kind of job it is, and what happens to it.
SimulatedEnd RunSimulatedJob(uint64_t seed,
                             const AgentTable& agent_table = kAgentTable,
                             const GroupTable& group_table = kGroupTable);

}  // namespace ddprun::launcher
