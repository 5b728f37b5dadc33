// The making of strategies "zero1", "zero2" and "zero3".
#pragma once

#include <memory>

#include "base/flight_recorder.h"
#include "trainer/loop/job.h"
#include "trainer/parallel/mesh.h"
#include "trainer/parallel/strategy.h"

namespace ddprun::trainer {

// REQUIRES: job.config.strategy.type is one of them. A collective; throws Failure.
std::unique_ptr<Strategy> BuildZero(const Job& job,
                                    const std::shared_ptr<Model>& model,
                                    const Mesh& mesh,
                                    FlightRecorder* recorder);

}  // namespace ddprun::trainer
