// Estimates from the config alone, before ranks start, how much memory training will take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/comm/rank_info.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

// The need of memory may differ from its estimate by this share.
inline constexpr double kEstimateTolerance = 0.2;

// The memory of one rank, in bytes.
struct MemoryEstimate {
  // Measured for a rank without a model, with its part of the memory that ranks share.
  double worker = 30 << 20;
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double checkpoint = 0;   // the copy that a save takes and keeps, on the host
  double kept = 0;         // the copies of run.recovery "memory", on the host
  double activations = 0;  // of the largest micro-batch, beside the gradients
  double batches = 0;      // loaded ahead
  double with_batch = 0;   // the part of activations and batches that depends on the batch size
  // False if only the model's own code (plugins, TorchScript) knows its activations.
  bool complete = true;
  bool on_device = false;  // parameters, gradients, optimizer and activations are on a device

  double total() const { return host() + (on_device ? computing() : 0); }
  double host() const {
    return worker + checkpoint + kept + batches + (on_device ? 0 : computing());
  }

 private:
  double computing() const { return parameters + gradients + optimizer + activations; }
};

// Returns the largest micro-batch that the config allows. For texts, looks at some of them.
BatchSize LargestBatch(const Job& job);

// Returns the estimate of a rank in each stage of the pipeline; without a pipeline, one estimate.
// `on_machine` is the number of ranks per machine; 0: all. Throws the Failure of ResolveDims().
std::vector<MemoryEstimate> EstimateStages(const Job& job, int world_size, int on_machine = 0);
// Returns the estimate of the rank that needs most.
MemoryEstimate EstimateMemory(const Job& job, int world_size, int on_machine = 0);
// Returns the host memory of all ranks on this rank's machine.
double MemoryOfNode(const Job& job, const RankInfo& rank);

// Returns "1.2 GB a rank", or "at least ..." if the estimate is not complete.
std::string MemoryText(const MemoryEstimate& estimate);

// Throws Failure if the ranks of this node surely need more memory than the machine, or this
// process's cgroup, has.
void CheckMemory(const Job& job, const RankInfo& rank);

// Throws Failure if the disk of the run's folder has no room for the weights.
void CheckDisk(const Job& job);

// Returns a warning if the checkpoints of one time may need more than their disk has left, or "".
std::string DiskWarning(const Job& job);

// Calls CheckMemory(), and on rank 0 CheckDisk().
void CheckNeeds(const Job& job, const RankInfo& rank);

}  // namespace ddprun::trainer
