// What rank 0 does besides training: the run folder, what people see, the weights at the end.
#pragma once

#include <memory>

#include "base/flight_recorder.h"
#include "trainer/comm/rank_info.h"
#include "trainer/job/job.h"
#include "trainer/loop/trainer.h"
#include "trainer/worker/stop_request.h"

namespace ddprun::trainer {

// From the weights to the end of the run. Throw Failure.
void TrainAsRankZero(const Job& job,
                     const RankInfo& rank,
                     const Environment& environment,
                     const std::shared_ptr<FlightRecorder>& recorder,
                     const StopRequest& stop,
                     Trainer& trainer);
// The same in the place of a rank 0 that was lost, whose files it takes over.
void GoOnAsRankZero(const Job& job,
                    const RankInfo& rank,
                    const Environment& environment,
                    const StopRequest& stop,
                    Trainer& trainer);

}  // namespace ddprun::trainer
