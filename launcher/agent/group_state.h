// The actions of a node's worker group after each event, as one table of phase by event. Pure.
#pragma once

#include "launcher/agent/state_table.h"
#include "launcher/agent/stop_grace.h"

namespace ddprun::launcher {

enum class GroupPhase {
  kRunning,   // from the first worker's start on
  kStopping,  // the workers have the stop signal, the grace time runs
  kKilling,   // SIGKILL sent
  kDone,      // no worker is left, or SIGKILL does not end the rest
  kCount
};

enum class GroupEvent {
  kStarted,       // all workers exist
  kWorkerFailed,  // a worker ended, and not well
  kWorkerLost,    // a signal has ended a worker, and another process can replace it
  kAllGone,       // the last worker has ended, or no worker could be started
  kStopAsked,     // by a signal, or because the round ends
  kKillAsked,     // a second stop signal: kill the workers now
  kGraceOver,     // the timer that kStop or kKill started has expired
  kCount
};

enum class GroupAction {
  kNone,
  kStop,     // SIGTERM (or the received signal) to the rest, start the grace timer
  kKill,     // SIGKILL to the rest, start the last timer
  kReplace,  // fork a process that replaces the lost worker
  kFinish,   // report and leave
  kGiveUp    // like kFinish, but SIGKILL has not ended all processes
};

using GroupTable = StateTable<GroupPhase, GroupEvent, GroupAction>;
extern const GroupTable kGroupTable;

using GroupState = StateMachine<GroupTable>;

struct GroupRules {
  StopGrace grace;  // from the stop signal to SIGKILL
  // Workers save before they stop. IsSuccess() then accepts their exit codes. If one worker fails,
  // the group kills the others, because they would wait for it.
  bool saves = false;
};

}  // namespace ddprun::launcher
