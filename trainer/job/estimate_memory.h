// How much memory training will take, from the config alone: said before ranks start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/comm/rank_info.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

// The need of memory may differ from its estimate by this share.
inline constexpr double kEstimateTolerance = 0.2;

// Bytes of one rank.
struct MemoryEstimate {
  // Measured: of a rank without a model, with its part of what the ranks share.
  double worker = 30 << 20;
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double checkpoint = 0;   // the copy that a save takes and keeps, on the host
  double activations = 0;  // of the largest micro-batch, beside the gradients
  double batches = 0;      // loaded ahead
  double with_batch = 0;   // of the last two, what is less with a smaller batch
  // False: only the model's own code knows what it takes besides (plugins, TorchScript).
  bool complete = true;
  bool on_device = false;  // what is not in host()

  double total() const { return host() + (on_device ? computing() : 0); }
  double host() const { return worker + checkpoint + batches + (on_device ? 0 : computing()); }

 private:
  double computing() const { return parameters + gradients + optimizer + activations; }
};

// Of what the config makes a micro-batch at most; of texts by looking at some of them.
BatchSize LargestBatch(const Job& job);

// For a world of so many ranks, so many of them on each machine (0: all), of a rank in each stage
// of the pipeline, if there is one. Throws the Failure of ResolveDims.
std::vector<MemoryEstimate> EstimateStages(const Job& job, int world_size, int on_machine = 0);
// Of the rank that needs most.
MemoryEstimate EstimateMemory(const Job& job, int world_size, int on_machine = 0);
// In the host's memory, of the ranks on this rank's machine together.
double MemoryOfNode(const Job& job, const RankInfo& rank);

// "1.2 GB a rank", or "at least ..." where it is not complete.
std::string MemoryText(const MemoryEstimate& estimate);

// Throws Failure when the ranks of this node surely need more than the machine, or this process's
// cgroup, has.
void CheckMemory(const Job& job, const RankInfo& rank);

// Throws Failure when the disk of the run's folder has no room for the weights.
void CheckDisk(const Job& job);

// Whether the checkpoints that are there at a time may need more than their disk has left; "": no.
std::string DiskWarning(const Job& job);

// Both checks, the disk where the weights are saved: for rank 0.
void CheckNeeds(const Job& job, const RankInfo& rank);

}  // namespace ddprun::trainer
