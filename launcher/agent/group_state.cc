#include "launcher/agent/group_state.h"

namespace ddprun::launcher {

namespace {

using enum GroupPhase;
using Step = GroupTable::Step;
constexpr GroupAction kNone = GroupAction::kNone;
constexpr GroupAction kStop = GroupAction::kStop;
constexpr GroupAction kKill = GroupAction::kKill;
constexpr GroupAction kReplace = GroupAction::kReplace;
constexpr GroupAction kFinish = GroupAction::kFinish;
constexpr GroupAction kGiveUp = GroupAction::kGiveUp;

}  // namespace

// Columns are in the order of GroupEvent: started, succeeded, failed, lost, all gone, stop, hurry,
// grace over. If workers start while the group is stopping or killing (kStarted), the group sends
// them the signal that the others got.
constexpr GroupTable kGroupTable = {{{
    // kRunning
    {{Step{kRunning, kNone}, Step{kRunning, kNone}, Step{kStopping, kStop},
      Step{kRunning, kReplace}, Step{kDone, kFinish}, Step{kStopping, kStop}, Step{kKilling, kKill},
      Step{kRunning, kNone}}},
    // kStopping
    {{Step{kStopping, kStop}, Step{kStopping, kNone}, Step{kStopping, kNone},
      Step{kStopping, kNone}, Step{kDone, kFinish}, Step{kStopping, kNone}, Step{kKilling, kKill},
      Step{kKilling, kKill}}},
    // kKilling
    {{Step{kKilling, kKill}, Step{kKilling, kNone}, Step{kKilling, kNone}, Step{kKilling, kNone},
      Step{kDone, kFinish}, Step{kKilling, kNone}, Step{kKilling, kNone}, Step{kDone, kGiveUp}}},
    // kDone
    {{Step{kDone, kNone}, Step{kDone, kNone}, Step{kDone, kNone}, Step{kDone, kNone},
      Step{kDone, kNone}, Step{kDone, kNone}, Step{kDone, kNone}, Step{kDone, kNone}}},
}}};
static_assert(kGroupTable.IsComplete());

}  // namespace ddprun::launcher
