// The test of a run's model at its end (data.test_files).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/flight_recorder.h"
#include "trainer/job/job.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"
#include "trainer/worker/stop_request.h"

namespace ddprun::trainer {

// Returns whether the job has test data and metrics.jsonl at `metrics` has no test after its last
// step. Throws Failure.
bool OwesTest(const Job& job, const std::string& metrics);

// Evaluates each sample of the test data once and reports it. `model` is the whole model that the
// run leaves, with the weights of `step`. The other ranks are not needed. If the run is to stop
// meanwhile, gives the test up, and a line says so. `recorder` may be nullptr. Throws Failure.
void TestAtEnd(const Job& job,
               int64_t step,
               int64_t steps_per_epoch,
               const StopRequest& stop,
               const std::shared_ptr<FlightRecorder>& recorder,
               Model& model,
               const Observers& observers);

}  // namespace ddprun::trainer
