// Pure: what a node's agent does next when something happens, as one table of phase by event.
#pragma once

#include "launcher/agent/state_table.h"

namespace ddprun::launcher {

enum class AgentPhase {
  kJoining,     // the nodes find each other, the worker template loads
  kRunning,     // workers exist
  kLeaving,     // the workers here ended well, those of other nodes may still run
  kRestarting,  // the round is over: workers are stopped, the others told; then it joins again
  kEnding,      // the job is over: workers are stopped, the others told
  kDone,        // the exit code is known
  kCount
};

enum class AgentEvent {
  kReady,         // joined, and the template, if there is one, can fork
  kSucceeded,     // all workers of this node exited with 0
  kRestartAsked,  // the round ends, here or elsewhere, and the job goes on in another one
  kEndAsked,      // the job ends: for good, by a signal, or because something cannot be done
  kHurryAsked,    // a second signal: no more patience
  kSettled,       // no worker is left and the others have been told
  kLeft,          // the workers of all nodes ended well
  kCount
};

enum class AgentAction {
  kNone,
  kStartWorkers,
  kStopWorkers,  // those that there are; kSettled follows in any case
  kKillWorkers,  // at once
  kLeave,
  kJoin,
  kFinish
};

using AgentTable = StateTable<AgentPhase, AgentEvent, AgentAction>;
extern const AgentTable kAgentTable;

using AgentState = StateMachine<AgentTable>;

}  // namespace ddprun::launcher
