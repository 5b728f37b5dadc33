#include "launcher/agent/agent_state.h"

namespace ddprun::launcher {

namespace {

using enum AgentPhase;
using Row = AgentTable::Row;
constexpr AgentAction kNone = AgentAction::kNone;
constexpr AgentAction kStart = AgentAction::kStartWorkers;
constexpr AgentAction kStop = AgentAction::kStopWorkers;
constexpr AgentAction kKill = AgentAction::kKillWorkers;
constexpr AgentAction kLeave = AgentAction::kLeave;
constexpr AgentAction kJoin = AgentAction::kJoin;
constexpr AgentAction kFinish = AgentAction::kFinish;

}  // namespace

// Cells are in the order of AgentEvent: ready, succeeded, restart asked, end asked, hurry, settled,
// left. kRestarting and kEnding can change into each other, because another node may have ended
// the round first, in another way.
constexpr AgentTable kAgentTable = {{{
    // kJoining. The round may end before this node has started its workers.
    Row{{{kRunning, kStart},
         {kJoining, kNone},
         {kRestarting, kStop},
         {kEnding, kStop},
         {kEnding, kKill},
         {kJoining, kNone},
         {kJoining, kNone}}},
    // kRunning
    Row{{{kRunning, kNone},
         {kLeaving, kLeave},
         {kRestarting, kStop},
         {kEnding, kStop},
         {kEnding, kKill},
         {kRunning, kNone},
         {kRunning, kNone}}},
    // kLeaving. The workers are gone, but a restart starts them again if another node fails now.
    Row{{{kLeaving, kNone},
         {kLeaving, kNone},
         {kRestarting, kStop},
         {kEnding, kStop},
         {kEnding, kKill},
         {kLeaving, kNone},
         {kDone, kFinish}}},
    // kRestarting
    Row{{{kRestarting, kNone},
         {kRestarting, kNone},
         {kRestarting, kNone},
         {kEnding, kStop},
         {kEnding, kKill},
         {kJoining, kJoin},
         {kRestarting, kNone}}},
    // kEnding
    Row{{{kEnding, kNone},
         {kEnding, kNone},
         {kRestarting, kStop},
         {kEnding, kNone},
         {kEnding, kKill},
         {kDone, kFinish},
         {kEnding, kNone}}},
    // kDone
    Row{{{kDone, kNone},
         {kDone, kNone},
         {kDone, kNone},
         {kDone, kNone},
         {kDone, kNone},
         {kDone, kNone},
         {kDone, kNone}}},
}}};
static_assert(kAgentTable.IsComplete());

}  // namespace ddprun::launcher
