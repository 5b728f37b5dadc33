#include "launcher/agent/group_state.h"

#include <array>

namespace ddprun::launcher {

namespace {

constexpr size_t kPhases = static_cast<size_t>(GroupPhase::kCount);
constexpr size_t kEvents = static_cast<size_t>(GroupEvent::kCount);

using enum GroupPhase;
using Step = GroupStep;
constexpr GroupAction kNone = GroupAction::kNone;
constexpr GroupAction kStop = GroupAction::kStop;
constexpr GroupAction kKill = GroupAction::kKill;
constexpr GroupAction kFinish = GroupAction::kFinish;
constexpr GroupAction kGiveUp = GroupAction::kGiveUp;

// Columns in the order of GroupEvent: started, succeeded, failed, all gone, stop, hurry, grace
// over. Workers that come into being while the group is being ended (kStarted in kStopping or
// kKilling) get what the others got.
constexpr std::array<std::array<Step, kEvents>, kPhases> kTable = {{
    // kStarting
    {{Step{kRunning, kNone}, Step{kStarting, kNone}, Step{kStopping, kStop}, Step{kDone, kFinish},
      Step{kStopping, kStop}, Step{kKilling, kKill}, Step{kStarting, kNone}}},
    // kRunning
    {{Step{kRunning, kNone}, Step{kRunning, kNone}, Step{kStopping, kStop}, Step{kDone, kFinish},
      Step{kStopping, kStop}, Step{kKilling, kKill}, Step{kRunning, kNone}}},
    // kStopping
    {{Step{kStopping, kStop}, Step{kStopping, kNone}, Step{kStopping, kNone}, Step{kDone, kFinish},
      Step{kStopping, kNone}, Step{kKilling, kKill}, Step{kKilling, kKill}}},
    // kKilling
    {{Step{kKilling, kKill}, Step{kKilling, kNone}, Step{kKilling, kNone}, Step{kDone, kFinish},
      Step{kKilling, kNone}, Step{kKilling, kNone}, Step{kDone, kGiveUp}}},
    // kDone
    {{Step{kDone, kNone}, Step{kDone, kNone}, Step{kDone, kNone}, Step{kDone, kNone},
      Step{kDone, kNone}, Step{kDone, kNone}, Step{kDone, kNone}}},
}};
static_assert(kTable.size() == kPhases && kTable[0].size() == kEvents);

}  // namespace

GroupStep NextStep(GroupPhase phase, GroupEvent event) {
  return kTable[static_cast<size_t>(phase)][static_cast<size_t>(event)];
}

}  // namespace ddprun::launcher
