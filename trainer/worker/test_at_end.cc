#include "trainer/worker/test_at_end.h"

#include "base/failure.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/report/metrics_file.h"
#include "trainer/worker/evaluate_whole.h"

namespace ddprun::trainer {

bool OwesTest(const Job& job, const std::string& metrics) {
  return job.test != nullptr && ValueOrThrow(CutLastLine(metrics)).test == 0;
}

void TestAtEnd(const Job& job,
               int64_t step,
               int64_t steps_per_epoch,
               const StopRequest& stop,
               const std::shared_ptr<FlightRecorder>& recorder,
               Model& model,
               const Observers& observers) {
  const auto note_progress = [&recorder] {
    if (recorder != nullptr) recorder->NoteProgress();
  };
  const auto stops = [&stop] { return stop.reason() != StopReason::kNone; };
  try {
    EvalReport report = EvaluateWhole(job, *job.test, Mesh(), model, note_progress, stops);
    report.step = step;
    report.epoch = static_cast<double>(step) / static_cast<double>(steps_per_epoch);
    observers.Notify(&Observer::OnTest, report);
  } catch (const EvaluationGivenUp&) {
    observers.Note("the test (data.test_files) was given up: " + stop.Text() +
                   "; if the run is resumed, it is made up for");
  }
}

}  // namespace ddprun::trainer
