// The state that the classes of the training loop share.
#pragma once

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <memory>

#include <ddprun/mesh.h>
#include "base/flight_recorder.h"
#include "base/log.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"
#include "trainer/optim/plateau.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/report/observer.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

// A Trainer owns it. One thread.
struct RunState {
  // Throws Failure if a rank is gone. A collective.
  void WaitForAllRanks() const { AllReduceOnHost(mesh.control.get(), at::zeros({1})); }
  void NoteProgress() const {
    if (recorder != nullptr) recorder->NoteProgress();
  }
  // Returns the seed of a micro-batch in the coming step, for number `own` of this process's
  // logical ranks.
  uint64_t SeedOf(size_t own, size_t micro_batch) const {
    const LogicalRank rank = LogicalRankAt(ranks, static_cast<int64_t>(own));
    return MicroBatchSeed(job.config, rank, step, micro_batch);
  }

  const Job& job;
  StepPlan plan;  // Checkpointing shortens it if evaluations no longer improve
  const Mesh mesh;
  const ParallelDims dims;
  const RankShare ranks;                           // the logical ranks of this process
  const std::shared_ptr<FlightRecorder> recorder;  // may be nullptr
  const Log log;
  const VisitState state;                   // names the state of a checkpoint
  std::shared_ptr<Model> model = {};        // from Trainer::Build() on
  std::unique_ptr<Strategy> strategy = {};  // from Trainer::Build() on
  const Observers* observers = nullptr;     // on rank 0, from Trainer::Fit() on
  Plateau plateau;                          // a factor of the learning rate
  int64_t step = 0;                         // optimizer steps done
  bool starting = true;                     // until a step is done, and again after a rank was lost
};

}  // namespace ddprun::trainer
