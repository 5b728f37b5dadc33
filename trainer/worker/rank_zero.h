// Rank 0 trains, and also writes the run folder, reports to people, and saves the final weights.
#pragma once

#include <memory>

#include "base/flight_recorder.h"
#include "trainer/comm/rank_info.h"
#include "trainer/job/job.h"
#include "trainer/loop/trainer.h"
#include "trainer/worker/stop_request.h"

namespace ddprun::trainer {

// Builds the model, begins or resumes the run, and trains to its end. Throws Failure.
void TrainAsRankZero(const Job& job,
                     const RankInfo& rank,
                     const Environment& environment,
                     const std::shared_ptr<FlightRecorder>& recorder,
                     const StopRequest& stop,
                     Trainer& trainer);
// Trains in place of a lost rank 0 and continues its run folder. Throws Failure.
void ReplaceRankZero(const Job& job,
                     const RankInfo& rank,
                     const Environment& environment,
                     const std::shared_ptr<FlightRecorder>& recorder,
                     const StopRequest& stop,
                     Trainer& trainer);

}  // namespace ddprun::trainer
