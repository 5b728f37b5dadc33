#include "launcher/agent/group_state.h"

namespace ddprun::launcher {

namespace {

using enum GroupPhase;
using enum GroupAction;
using GroupEvent::kStarted, GroupEvent::kWorkerFailed, GroupEvent::kWorkerLost,
    GroupEvent::kAllGone, GroupEvent::kStopAsked, GroupEvent::kKillAsked, GroupEvent::kGraceOver;
using From = GroupTable::From;

}  // namespace

// If workers start while the group is stopping or killing (kStarted), the group sends them the
// signal that the others got.
constexpr GroupTable kGroupTable = {
    From(kRunning)
        .On(kWorkerFailed, kStopping, kStop)
        .On(kWorkerLost, kRunning, kReplace)
        .On(kAllGone, kDone, kFinish)
        .On(kStopAsked, kStopping, kStop)
        .On(kKillAsked, kKilling, kKill)
        .Ignores(kStarted, kGraceOver),
    From(kStopping)
        .On(kStarted, kStopping, kStop)
        .On(kAllGone, kDone, kFinish)
        .On(kKillAsked, kKilling, kKill)
        .On(kGraceOver, kKilling, kKill)
        .Ignores(kWorkerFailed, kWorkerLost, kStopAsked),
    From(kKilling)
        .On(kStarted, kKilling, kKill)
        .On(kAllGone, kDone, kFinish)
        .On(kGraceOver, kDone, kGiveUp)
        .Ignores(kWorkerFailed, kWorkerLost, kStopAsked, kKillAsked),
    From(kDone).Ignores(
        kStarted, kWorkerFailed, kWorkerLost, kAllGone, kStopAsked, kKillAsked, kGraceOver),
};
static_assert(kGroupTable.IsComplete());

}  // namespace ddprun::launcher
