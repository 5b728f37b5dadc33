// What every rank does before its first step.
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

// What LOGLEVEL shows goes to `sink`; the flight recorder keeps the last lines of all.
Log OpenLog(const std::string& name,
            const Environment& environment,
            std::shared_ptr<FlightRecorder> recorder,
            Log::Sink sink);

// Weights, then what computes best with them: a line for people, or "". `joins` is the
// argument of BuildStrategy(). Throws Failure.
std::string Build(const Job& job,
                  const Environment& environment,
                  Trainer& trainer,
                  bool joins = false);

// A collective, once there are weights: takes up what the checkpoint has, or where shards of it are
// damaged the one before. Returns what has changed since, a line each. `start`: rank 0's; of the
// others none knows more than they are told. Throws Failure.
std::vector<std::string> GoOn(const Job& job,
                              const RankInfo& rank,
                              RunStart& start,
                              Trainer& trainer);

}  // namespace ddprun::trainer
