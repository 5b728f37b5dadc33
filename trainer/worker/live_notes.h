// What `ddprun top` and traces show of a training run: notes in the flight recorder, which cost a
// few nanoseconds a step.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/flight_notes.h"
#include "base/step_phase.h"
#include "trainer/loop/step_part.h"
#include "trainer/report/meter.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Notes the phases of each step. The thread that makes it is the one that trains.
class PhaseNotes final : public StepPart {
 public:
  explicit PhaseNotes(std::shared_ptr<FlightRecorder> recorder) {
    NotePhasesIn(std::move(recorder));
  }
  ~PhaseNotes() override { StopNotingPhases(); }
  PhaseNotes(const PhaseNotes&) = delete;
  PhaseNotes& operator=(const PhaseNotes&) = delete;

  void BeforeStep(const Step& /*step*/) override { BeginPhase(StepPhase::kForward); }
  void AfterGradients(const Step& /*step*/) override { BeginPhase(StepPhase::kUpdate); }
  void AfterUpdate(const Step& /*step*/) override { BeginPhase(StepPhase::kBetween); }
};

// Notes the numbers of each reported step.
class RunNumbers final : public Observer {
 public:
  RunNumbers(Environment environment, int local_rank)
      : environment_(std::move(environment)), local_rank_(local_rank) {}

  void OnStep(const StepReport& report, ReportTime /*now*/) override {
    samples_.Add(static_cast<double>(report.samples), report.step_seconds);
    if (!report.reported && noted_) return;
    noted_ = true;
    RunProgress run{.total_steps = report.max_steps};
    if (report.reported) {
      run.loss = report.mean_loss;
      run.samples_per_second = samples_.per_second();
      run.step_seconds = samples_.seconds_each();
    }
    NoteRun(environment_, local_rank_, run);
  }

 private:
  static constexpr size_t kSteps = 20;  // of the average

  const Environment environment_;
  const int local_rank_;
  RateMeter samples_{kSteps};
  bool noted_ = false;
};

}  // namespace ddprun::trainer
