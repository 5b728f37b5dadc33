// A picture of one step of all ranks, for the page of a run.
#pragma once

#include <string>

#include "trainer/report/step_timeline.h"

namespace ddprun::trainer {

// Returns a <figure> with a row for each part of each rank, and a text for each span that a browser
// shows under the pointer. Returns "" without spans. Pure.
std::string TimelinePicture(const StepTimeline& timeline);

}  // namespace ddprun::trainer
