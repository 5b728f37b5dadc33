#include "trainer/worker/plugin_observer.h"

#include <ddprun/error.h>

namespace ddprun::trainer {

namespace {

ObservedEvaluation Observed(const EvalReport& report) {
  return {.step = report.step,
          .loss = report.loss,
          .samples = report.samples,
          .metrics = {report.metrics.begin(), report.metrics.end()}};
}

}  // namespace

void PluginObserver::OnBegin(const RunHeader& header, ReportTime /*now*/) {
  observer_ = plugin_.MakeObserver(options_);
  const ObservedRun run{.name = header.run_name,
                        .ranks = header.world_size,
                        .strategy = header.strategy,
                        .parameters = header.parameters,
                        .resumed_step = header.resumed_step};
  CallPlugin(
      plugin_.path(), [] { return "OnStart of the observer ran"; },
      [&] { observer_->OnStart(run); });
}

void PluginObserver::OnStep(const StepReport& report, ReportTime /*now*/) {
  Call("OnStep", report.step, [&report](RunObserver& observer) {
    ObservedStep step{.step = report.step,
                      .max_steps = report.max_steps,
                      .epoch = report.epoch,
                      .loss = report.loss,
                      .learning_rate = report.learning_rate,
                      .samples = report.samples,
                      .tokens = report.tokens,
                      .seconds = report.step_seconds};
    if (report.reported) step.grad_norm = report.grad_norm;
    observer.OnStep(step);
  });
}

void PluginObserver::OnEval(const EvalReport& report, ReportTime /*now*/) {
  Call("OnEvaluation", report.step,
       [&](RunObserver& observer) { observer.OnEvaluation(Observed(report)); });
}

void PluginObserver::OnTest(const EvalReport& report, ReportTime /*now*/) {
  Call("OnTest", report.step, [&](RunObserver& observer) { observer.OnTest(Observed(report)); });
}

void PluginObserver::OnCheckpoint(const CheckpointReport& report, ReportTime /*now*/) {
  Call("OnCheckpoint", report.step, [&](RunObserver& observer) {
    observer.OnCheckpoint({.step = report.step, .path = report.path, .error = report.error});
  });
}

void PluginObserver::OnEnd(const RunEnd& end, ReportTime /*now*/) {
  Call("OnEnd", end.step, [&](RunObserver& observer) {
    observer.OnEnd({.reason = end.reason, .step = end.step, .message = end.message});
  });
}

void PluginObserver::Call(const char* method,
                          int64_t step,
                          const std::function<void(RunObserver&)>& call) {
  if (observer_ == nullptr) return;
  try {
    call(*observer_);
  } catch (...) {
    told_.OnNote("warning: the observer of " + plugin_.path() + " threw in " + method +
                 " after step " + std::to_string(step) + ": " + ExceptionText() +
                 ". Training goes on without it.");
    observer_.reset();
  }
}

}  // namespace ddprun::trainer
