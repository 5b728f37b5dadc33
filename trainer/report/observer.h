// SEAM: what a training loop tells those who watch it: one value per step, per validation pass and
// per run. Times are seconds on any clock that only moves forward, unless said otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/report/strategy_reports.h"

namespace ddprun::trainer {

// Counts are of the whole job, summed over its ranks, for this one optimizer step.
struct StepReport {
  int64_t step = 0;       // 1 for the first
  int64_t max_steps = 0;  // of the run
  double epoch = 0;       // passes over the data so far, with fraction
  bool reported = false;  // whether report.logging_steps wants it told
  double loss = 0;        // mean over the predictions of the step and its ranks; NaN without any
  double mean_loss = 0;   // over the steps since the last one reported; NaN without any prediction
  double learning_rate = 0;
  double grad_norm = 0;       // before clipping; 0 where the step is not reported
  double loss_scale = 0;      // of the step; 0: none (float16 has one)
  int64_t skipped_steps = 0;  // of the run until now, for gradients that were not finite
  int64_t samples = 0;
  int64_t predictions = 1;
  int64_t tokens = 0;      // 0 for a model without tokens
  double run_seconds = 0;  // that the run has trained until now, over all its starts
  double step_seconds = 0;
  double data_seconds = 0;  // of these, waiting for the batches
  // Communication that the step had to wait for, not hidden behind the backward pass; < 0: nobody
  // knows, as layers that ranks share out wait within forward and backward.
  double exposed_comm_seconds = 0;
  // Share of the step that ranks waited for other stages of a pipeline, their mean; < 0: none.
  double pipeline_bubble = -1;
  // Bytes of the device of the rank with the most, at most since the last step reported: of tensors
  // and of the allocator's. Where a step is reported; < 0: the device is the CPU.
  int64_t max_memory_allocated = -1;
  int64_t max_memory_reserved = -1;
};

struct EvalReport {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0;
  int64_t samples = 0;  // every sample counted once
  double seconds = 0;
  std::vector<std::pair<std::string, double>> metrics = {};  // {"accuracy", 0.97}
};

// What has become of a save.
struct CheckpointReport {
  int64_t step = 0;
  std::string path;          // of the checkpoint
  int64_t bytes = 0;         // that rank 0 wrote
  double seconds = 0;        // from the step's end to the commit
  double stall_seconds = 0;  // of these, those that a step had to wait
  std::string error = {};    // not empty: why there is none
};

// What a step did to every tensor of every rank (report.state_hashes).
struct StateHashes {
  int64_t step = 0;
  std::vector<std::string> names = {};            // "gradient of fc.weight", "fc.weight"
  std::vector<std::vector<uint64_t>> ranks = {};  // of each rank, a hash for each name
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
  int64_t resumed_step = 0;  // the last one of those that an earlier start has done; 0: none
  // Anything else worth keeping: {"device", "cpu"}, {"matmul", "mkldnn"}.
  std::vector<std::pair<std::string, std::string>> facts = {};
};

// The last line of metrics.jsonl; a file without one belongs to a run that was killed.
struct RunEnd {
  std::string reason;  // "finished", "failed", "SIGTERM"
  int64_t step = 0;
  std::string message = {};  // of the error, when there was one
};

struct ReportTime {
  double unix_seconds = 0;    // wall clock, for files
  double steady_seconds = 0;  // for intervals

  static ReportTime Now();
};

// Rank 0 calls it, in one thread and in the order of the run. Nothing here waits for anything but a
// write, and what goes wrong after the beginning is no reason to end a training of days.
class Observer {
 public:
  virtual ~Observer() = default;

  // First. Throws Failure where it cannot do its part.
  virtual void OnBegin(const RunHeader& /*header*/, ReportTime /*now*/) {}
  // A line for people, without newline.
  virtual void OnNote(std::string_view /*line*/) {}
  // Every step.
  virtual void OnStep(const StepReport& /*report*/, ReportTime /*now*/) {}
  virtual void OnEval(const EvalReport& /*report*/, ReportTime /*now*/) {}
  // The save of the state after this step begins; what becomes of it OnCheckpoint tells.
  virtual void OnSave(int64_t /*step*/, ReportTime /*now*/) {}
  virtual void OnCheckpoint(const CheckpointReport& /*report*/, ReportTime /*now*/) {}
  virtual void OnBucketSizes(const BucketSizesReport& /*report*/, ReportTime /*now*/) {}
  virtual void OnDeviceMemory(const DeviceMemoryReport& /*report*/, ReportTime /*now*/) {}
  // Every step, where the config wants it.
  virtual void OnStateHashes(const StateHashes& /*hashes*/, ReportTime /*now*/) {}
  // Last.
  virtual void OnEnd(const RunEnd& /*end*/, ReportTime /*now*/) {}
};

// All who watch a run.
class Observers {
 public:
  Observer& Add(std::unique_ptr<Observer> observer) {
    return *all_.emplace_back(std::move(observer));
  }
  // Tell(&Observer::OnStep, report) and so on, in the order in which they were added.
  template <typename Event, typename Report>
  void Tell(Event event, const Report& report, ReportTime now = ReportTime::Now()) const {
    for (const auto& observer : all_) (observer.get()->*event)(report, now);
  }
  void Note(std::string_view line) const {
    for (const auto& observer : all_) observer->OnNote(line);
  }

 private:
  std::vector<std::unique_ptr<Observer>> all_;
};

}  // namespace ddprun::trainer
