// The work of every rank before its first step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/flight_recorder.h"
#include "base/log.h"
#include "trainer/comm/rank_info.h"
#include "trainer/loop/trainer.h"
#include "trainer/worker/resume.h"

namespace ddprun::trainer {

// Opens a log. Lines that LOGLEVEL allows go to `sink`, the last of all to the flight recorder.
Log OpenLog(const std::string& name,
            const Environment& environment,
            std::shared_ptr<FlightRecorder> recorder,
            Log::Sink sink);

// Builds the model, then picks the fastest matrix engine. Returns a line that names the engine; ""
// means there was no choice. `joins` is the argument of BuildStrategy(). Throws Failure.
std::string BuildAndTune(const Job& job,
                         const Environment& environment,
                         Trainer& trainer,
                         bool joins = false);

// A collective, after the model was built. Loads the checkpoint of rank 0's `start`, or an earlier
// checkpoint if it is damaged; other ranks pass an empty `start`. Returns a line for each key that
// has changed. Throws Failure.
std::vector<std::string> Resume(const Job& job,
                                const RankInfo& rank,
                                RunStart& start,
                                Trainer& trainer);

}  // namespace ddprun::trainer
