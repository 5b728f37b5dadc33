// The actions of a node's agent after each event, as one table of phase by event. Pure.
#pragma once

#include "launcher/agent/state_table.h"

namespace ddprun::launcher {

enum class AgentPhase {
  kJoining,     // the nodes meet, and the worker template loads
  kRunning,     // workers exist
  kLeaving,     // this node's workers ended well, those of other nodes may still run
  kRestarting,  // the agent stops the workers, tells the other nodes, and joins again
  kEnding,      // the job is over: the agent stops the workers and tells the others
  kDone,        // the exit code is known
  kCount
};

enum class AgentEvent {
  kReady,         // this node has joined, and the template, if there is one, can fork
  kSucceeded,     // all workers of this node exited with 0
  kRestartAsked,  // a node ends the round, and the job continues with another round
  kEndAsked,      // the job ends: by a failure, by a signal, or by another node
  kKillAsked,     // a second stop signal: kill the workers now
  kSettled,       // no worker is left, and the other nodes know of the end
  kLeft,          // the workers of all nodes ended well
  kCount
};

enum class AgentAction {
  kNone,
  kStartWorkers,
  kStopWorkers,  // stop all workers, if there are any; kSettled follows in any case
  kKillWorkers,  // send SIGKILL now
  kLeave,
  kJoin,
  kFinish
};

using AgentTable = StateTable<AgentPhase, AgentEvent, AgentAction>;
extern const AgentTable kAgentTable;

using AgentState = StateMachine<AgentTable>;

}  // namespace ddprun::launcher
