#include "launcher/agent/agent_state.h"

namespace ddprun::launcher {

namespace {

using enum AgentPhase;
using enum AgentAction;
using AgentEvent::kReady, AgentEvent::kSucceeded, AgentEvent::kRestartAsked, AgentEvent::kEndAsked,
    AgentEvent::kKillAsked, AgentEvent::kSettled, AgentEvent::kLeft;
using From = AgentTable::From;

}  // namespace

// kRestarting and kEnding can change into each other, because another node may have ended the round
// first, in another way.
constexpr AgentTable kAgentTable = {
    // The round may end before this node has started its workers.
    From(kJoining)
        .On(kReady, kRunning, kStartWorkers)
        .On(kRestartAsked, kRestarting, kStopWorkers)
        .On(kEndAsked, kEnding, kStopWorkers)
        .On(kKillAsked, kEnding, kKillWorkers)
        .Ignores(kSucceeded, kSettled, kLeft),
    From(kRunning)
        .On(kSucceeded, kLeaving, kLeave)
        .On(kRestartAsked, kRestarting, kStopWorkers)
        .On(kEndAsked, kEnding, kStopWorkers)
        .On(kKillAsked, kEnding, kKillWorkers)
        .Ignores(kReady, kSettled, kLeft),
    // The workers are gone, but a restart starts them again if another node fails now.
    From(kLeaving)
        .On(kRestartAsked, kRestarting, kStopWorkers)
        .On(kEndAsked, kEnding, kStopWorkers)
        .On(kKillAsked, kEnding, kKillWorkers)
        .On(kLeft, kDone, kFinish)
        .Ignores(kReady, kSucceeded, kSettled),
    From(kRestarting)
        .On(kEndAsked, kEnding, kStopWorkers)
        .On(kKillAsked, kEnding, kKillWorkers)
        .On(kSettled, kJoining, kJoin)
        .Ignores(kReady, kSucceeded, kRestartAsked, kLeft),
    From(kEnding)
        .On(kRestartAsked, kRestarting, kStopWorkers)
        .On(kKillAsked, kEnding, kKillWorkers)
        .On(kSettled, kDone, kFinish)
        .Ignores(kReady, kSucceeded, kEndAsked, kLeft),
    From(kDone).Ignores(kReady, kSucceeded, kRestartAsked, kEndAsked, kKillAsked, kSettled, kLeft),
};
static_assert(kAgentTable.IsComplete());

}  // namespace ddprun::launcher
