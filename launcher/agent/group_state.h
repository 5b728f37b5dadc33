// Pure: what a node's worker group does when something happens, as one table of state by event.
#pragma once

#include <chrono>

#include "launcher/agent/state_table.h"

namespace ddprun::launcher {

enum class GroupPhase {
  kRunning,   // from the first worker's start on
  kStopping,  // told to end, grace period running
  kKilling,   // SIGKILL sent
  kDone,      // no worker is left, or none that can be ended
  kCount
};

enum class GroupEvent {
  kStarted,          // all workers exist
  kWorkerSucceeded,  // one exited 0
  kWorkerFailed,     // one exited otherwise
  kWorkerLost,       // a signal has ended one that another process can take the place of
  kAllGone,          // the last one was reaped, or the start came to nothing
  kStopAsked,        // by a signal or because another node failed
  kHurryAsked,       // a second signal: no more patience
  kGraceOver,        // the timer that kStop or kKill started has run out
  kCount
};

enum class GroupAction {
  kNone,
  kStop,     // SIGTERM (or the received signal) to the rest, start the grace timer
  kKill,     // SIGKILL to the rest, start the last timer
  kReplace,  // fork another one in its place
  kFinish,   // report and leave
  kGiveUp    // as kFinish, but processes are left that even SIGKILL does not end
};

using GroupTable = StateTable<GroupPhase, GroupEvent, GroupAction>;
extern const GroupTable kGroupTable;

using GroupState = StateMachine<GroupTable>;

struct GroupRules {
  std::chrono::milliseconds grace;  // from being told to stop to SIGKILL
  // Workers save before they stop, so what EndsWell says of those holds; when one fails the others,
  // which would wait for it, are killed.
  bool saves = false;
};

}  // namespace ddprun::launcher
