// SEAM: the reports of a training loop to its observers: one value per step, per validation pass
// and per run. Times are seconds on any clock that only moves forward, unless said otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/report/eval_report.h"
#include "trainer/report/strategy_reports.h"

namespace ddprun::trainer {

struct RankTimesReport;  // trainer/report/rank_times_report.h
struct TraceReport;      // trainer/report/trace_file.h

// Counts are sums over all ranks of the job for this one optimizer step.
struct StepReport {
  int64_t step = 0;       // 1 for the first
  int64_t max_steps = 0;  // of the run
  double epoch = 0;       // passes over the data so far, with fraction
  bool reported = false;  // whether report.logging_steps includes this step
  double loss = 0;        // mean over the predictions of the step and its ranks; NaN without any
  double mean_loss = 0;   // over the steps since the last reported one; NaN without predictions
  double learning_rate = 0;
  double grad_norm = 0;       // before clipping; 0 if the step is not reported
  double loss_scale = 0;      // of the step; 0: none (float16 has one)
  int64_t skipped_steps = 0;  // of the run so far, because gradients were not finite
  int64_t samples = 0;
  double weight = 1;       // of the loss: Batch::LossWeight()
  int64_t tokens = 0;      // 0 for a model without tokens
  double run_seconds = 0;  // training time of the run so far, over all its starts
  double step_seconds = 0;
  double data_seconds = 0;  // of step_seconds, waiting for batches
  // Communication for which the step waited, not hidden behind the backward pass. < 0: unknown,
  // because ranks that divide layers wait within forward and backward.
  double exposed_comm_seconds = 0;
  // Part of the step that ranks waited for other stages, on average; < 0: no pipeline.
  double pipeline_bubble = -1;
  // Peak bytes since the last reported step, on the device of the rank with the most: of tensors,
  // and of the allocator. Only in reported steps; < 0: the device is the CPU.
  int64_t max_memory_allocated = -1;
  int64_t max_memory_reserved = -1;
};

// The result of a save.
struct CheckpointReport {
  int64_t step = 0;
  std::string path;          // of the checkpoint
  int64_t bytes = 0;         // of the checkpoint
  double seconds = 0;        // from the step's end to the commit
  double stall_seconds = 0;  // of `seconds`, the time that training waited
  std::string error = {};    // not empty: the reason why there is no checkpoint
};

// Hashes of every tensor of every rank after a step (report.state_hashes).
struct StateHashes {
  int64_t step = 0;
  std::vector<std::string> names = {};            // "gradient of fc.weight", "fc.weight"
  std::vector<std::vector<uint64_t>> ranks = {};  // by rank: a hash for each name
};

// The first line of metrics.jsonl.
struct RunHeader {
  std::string run_name;
  std::string config_hash;  // ConfigHash() of the resolved config
  int64_t world_size = 1;
  int64_t nodes = 1;
  int64_t local_world_size = 1;
  std::string strategy;
  int64_t parameters = 0;
  int64_t resumed_step = 0;               // the last step of an earlier start; 0: none
  std::string parent = {};                // the checkpoint of another run from which this run began
  std::vector<std::string> changes = {};  // a line for each key that the earlier start had not so
  // Further facts: {"device", "cpu"}, {"matmul", "mkldnn"}.
  std::vector<std::pair<std::string, std::string>> facts = {};
};

// The last line of metrics.jsonl. A file without it belongs to a run that was killed.
struct RunEnd {
  std::string reason;  // "finished", "failed", "SIGTERM"
  int64_t step = 0;
  std::string message = {};  // of the error, if there was one
};

struct ReportTime {
  double unix_seconds = 0;    // wall clock, for files
  double steady_seconds = 0;  // for intervals

  static ReportTime Now();
};

// Rank 0 calls it, on one thread and in the order of the run. Observers wait only for writes. After
// the beginning, an observer's failure does not end the run, because it may have trained for days.
class Observer {
 public:
  virtual ~Observer() = default;

  // Called first. Throws Failure if the observer cannot work.
  virtual void OnBegin(const RunHeader& /*header*/, ReportTime /*now*/) {}
  // Gets a line for people, without newline.
  virtual void OnNote(std::string_view /*line*/) {}
  // Called after every step.
  virtual void OnStep(const StepReport& /*report*/, ReportTime /*now*/) {}
  virtual void OnEval(const EvalReport& /*report*/, ReportTime /*now*/) {}
  // Called at the end of a run with data.test_files. The step is that of the weights.
  virtual void OnTest(const EvalReport& /*report*/, ReportTime /*now*/) {}
  // Called when the save of the state after this step begins. OnCheckpoint() gets its result.
  virtual void OnSave(int64_t /*step*/, ReportTime /*now*/) {}
  virtual void OnCheckpoint(const CheckpointReport& /*report*/, ReportTime /*now*/) {}
  virtual void OnBucketSizes(const BucketSizesReport& /*report*/, ReportTime /*now*/) {}
  virtual void OnDeviceMemory(const DeviceMemoryReport& /*report*/, ReportTime /*now*/) {}
  // Called before a step whose OnStep() is `reported`, at most once in ten steps.
  virtual void OnRankTimes(const RankTimesReport& /*report*/, ReportTime /*now*/) {}
  // Called after every step, if report.state_hashes is set.
  virtual void OnStateHashes(const StateHashes& /*hashes*/, ReportTime /*now*/) {}
  // Called once, after the last step of report.trace_steps.
  virtual void OnTrace(const TraceReport& /*report*/, ReportTime /*now*/) {}
  // Called last.
  virtual void OnEnd(const RunEnd& /*end*/, ReportTime /*now*/) {}
};

// All observers of a run.
class Observers {
 public:
  Observer& Add(std::unique_ptr<Observer> observer) {
    return *all_.emplace_back(std::move(observer));
  }
  // Calls an event of all observers, in the order in which they were added:
  // Notify(&Observer::OnStep, report).
  template <typename Event, typename Report>
  void Notify(Event event, const Report& report, ReportTime now = ReportTime::Now()) const {
    for (const auto& observer : all_) (observer.get()->*event)(report, now);
  }
  void Note(std::string_view line) const {
    for (const auto& observer : all_) observer->OnNote(line);
  }

 private:
  std::vector<std::unique_ptr<Observer>> all_;
};

}  // namespace ddprun::trainer
