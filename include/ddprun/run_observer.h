// A plugin's observer of a run: what rank 0 reports about the start, the steps, the evaluations,
// the checkpoints and the end. See docs/plugins.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ddprun {

// The facts from which a plugin makes its observer.
struct PluginObserverOptions {
  std::string json = "{}";  // the object report.options of the config, as JSON text
  std::string folder = {};  // the run's: an absolute path, or relative to the working directory
};

struct ObservedRun {
  std::string name = {};
  int64_t ranks = 1;
  std::string strategy = {};  // "ddp"
  int64_t parameters = 0;     // numbers in all of the model's parameters
  int64_t resumed_step = 0;   // of the checkpoint after which the run goes on; 0: none
};

// One optimizer step, over all ranks.
struct ObservedStep {
  int64_t step = 0;  // 1 for the first
  int64_t max_steps = 0;
  double epoch = 0;  // passes over the data so far, with fraction
  double loss = 0;   // mean over the predictions of the step; NaN without any
  double learning_rate = 0;
  // Before clipping; only in steps that are logged (report.logging_steps).
  std::optional<double> grad_norm = {};
  int64_t samples = 0;
  int64_t tokens = 0;  // 0 for data without tokens
  double seconds = 0;
};

// A pass over validation or test data.
struct ObservedEvaluation {
  int64_t step = 0;
  double loss = 0;
  int64_t samples = 0;                         // every sample counted once
  std::map<std::string, double> metrics = {};  // {"accuracy", 0.97}
};

struct ObservedCheckpoint {
  int64_t step = 0;
  std::string path = {};
  std::string error = {};  // not empty: the reason why there is no checkpoint
};

struct ObservedEnd {
  std::string reason = {};  // "finished", "stopped", "failed"
  int64_t step = 0;
  std::string message = {};  // of the error, if there was one
};

// Rank 0 makes one when the run begins, and calls it from one thread. All ranks wait while a method
// runs. An exception at the start ends the run. After a later one the run goes on and does not call
// the observer again, because it may have trained for days.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  // Called first, also when a run goes on after a checkpoint or after rank 0 was replaced.
  virtual void OnStart(const ObservedRun& /*run*/) {}
  // Called after every step. Steps of which the ranks learn the loss later come together.
  virtual void OnStep(const ObservedStep& /*step*/) {}
  virtual void OnEvaluation(const ObservedEvaluation& /*evaluation*/) {}
  // Called at the end of a run with data.test_files. The step is that of the weights.
  virtual void OnTest(const ObservedEvaluation& /*test*/) {}
  // Called when a checkpoint is complete on the disk, or could not be written.
  virtual void OnCheckpoint(const ObservedCheckpoint& /*checkpoint*/) {}
  // Called last. Not called if rank 0 is killed.
  virtual void OnEnd(const ObservedEnd& /*end*/) {}
};

}  // namespace ddprun
