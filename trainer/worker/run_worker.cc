#include "trainer/worker/run_worker.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <optional>

#include "base/failure.h"
#include "base/flight_notes.h"
#include "base/flight_recorder.h"
#include "base/last_words.h"
#include "base/log.h"
#include "base/stop_signals.h"
#include "trainer/comm/bootstrap.h"
#include "trainer/compute/block_cache.h"
#include "trainer/compute/math_kernels.h"
#include "trainer/config/facts.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/job/estimate_memory.h"
#include "trainer/job/options_of.h"
#include "trainer/job/plan_job.h"
#include "trainer/job/step_plan.h"
#include "trainer/loop/trainer.h"
#include "trainer/worker/begin_training.h"
#include "trainer/worker/clip_by_value.h"
#include "trainer/worker/device_mesh.h"
#include "trainer/worker/live_notes.h"
#include "trainer/worker/norm_guard.h"
#include "trainer/worker/rank_times.h"
#include "trainer/worker/rank_zero.h"
#include "trainer/worker/requeued_run.h"
#include "trainer/worker/step_trace.h"
#include "trainer/worker/stop_request.h"

namespace ddprun::trainer {

namespace {

// Sets the launcher's number of threads, because LibTorch read the variable when it was loaded: in
// a forked worker before the launcher set it. Virtual ranks have one thread, because the bits of a
// sum depend on the number of threads.
void SetThreads(const TrainingConfig& training, const Environment& environment) {
  if (training.virtual_ranks > 0) return at::set_num_threads(1);
  const int64_t threads = ValueOrThrow(environment.GetInt("OMP_NUM_THREADS", 0, 1, 4096));
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

// Calls `meet` until no rank is lost while a replacement meets the others. Each call makes the next
// generation.
template <typename MeetFunction>
auto MeetAnyGeneration(const Environment& environment, const MeetFunction& meet) {
  for (;;) {
    try {
      return meet();
    } catch (const Failure& failure) {
      const bool lost = failure.error().code == Code::kRankLost;
      if (!lost || FirstGeneration(environment) == 0) throw;
    }
  }
}

Mesh MeetOthers(const Job& job,
                const RankInfo& rank,
                const Environment& environment,
                const std::shared_ptr<FlightRecorder>& recorder,
                const Log& log) {
  const auto timeout = std::chrono::seconds(job.config.comm.init_timeout_seconds);
  const ParallelDims dims = ValueOrThrow(ResolveDims(job.config, rank.world_size));
  Mesh mesh;
  if (!dims.devices.empty()) {
    PutOnNamedDevices(DevicesOf(job.config.strategy), "strategy.devices", job.device, mesh);
    return mesh;
  }
  if (dims.needs_group()) {
    const double link = job.config.comm.emulated_link;
    auto group = MeetAnyGeneration(
        environment, [&] { return InitProcessGroup(environment, timeout, recorder, link); });
    group->SetAllReduceAlgorithm(job.config.comm.algorithm);
    mesh = MakeMesh(group, dims);
  }
  // A replacement stays on the CPU, and the other ranks, in the middle of training, do not meet it.
  if (FirstGeneration(environment) > 0) return mesh;
  const std::string note = PutOnDeviceOf(job.config.run.device, "run.device", job.device, rank,
                                         environment, timeout, mesh);
  if (!note.empty() && rank.rank == 0) log.Warning(note);
  if (job.config.comm.emulated_link > 0 && !mesh.device.is_cpu() && rank.rank == 0) {
    log.Warning("comm.emulated_link slows only ranks on CPUs, so nothing here");
  }
  return mesh;
}

// Returns whether lost ranks may be replaced. Ranks show this to the launcher, which decides, with
// FlightRecorder::SetRecoveryGeneration().
bool RecoversFromPeers(const Config& config,
                       const RankInfo& rank,
                       const Environment& environment,
                       const Log& log) {
  const auto restarts = environment.GetInt("TORCHELASTIC_MAX_RESTARTS", 0, 0, 1 << 30);
  const std::string& wanted = config.run.recovery;
  if (rank.world_size == 1 || wanted == "none") return false;
  if (!restarts || *restarts == 0) {
    if (wanted != "auto" && rank.rank == 0) {
      log.Warning("run.recovery is \"" + wanted +
                  "\", but the launcher allows no restarts: a lost rank ends the job. Start it "
                  "with --max_restarts=N.");
    }
    return false;
  }
  const std::string_view way = wanted == "memory" ? "memory" : "peer";
  const std::string obstacle = ObstacleTo("run.recovery", config, AllSettings(), way);
  if (!obstacle.empty()) log.Debug("no recovery without a restart", {{"because_of", obstacle}});
  return obstacle.empty();
}

int Train(const Job& job,
          const StepPlan& plan,
          const RankInfo& rank,
          const Environment& environment,
          const std::shared_ptr<FlightRecorder>& recorder,
          const StopRequest& stop,
          const Mesh& mesh,
          const Log& log) {
  const bool joins = FirstGeneration(environment) > 0;
  PhaseNotes phases(recorder);
  Trainer trainer(job, plan, mesh, recorder, log);
  if (recorder != nullptr && RecoversFromPeers(job.config, rank, environment, log)) {
    trainer.ReplaceLostRanks();
  }
  trainer.AddPart(phases);
  RankTimes times(mesh, rank.node_rank, job.config.report.logging_steps);
  if (mesh.control != nullptr) trainer.AddPart(times);
  ClipByValue clip(job.config.training.max_grad_value);
  if (job.config.training.max_grad_value > 0) trainer.AddPart(clip);
  NormGuard guard(job.config.training.max_norm_jump);
  if (job.config.training.max_norm_jump > 0) trainer.AddPart(guard);
  std::optional<StepTrace> trace;
  if (const auto& steps = job.config.report.trace_steps; !steps.empty()) {
    trainer.AddPart(trace.emplace(mesh, steps[0], steps[1]));
  }
  trainer.StopWithin([&stop] { return stop.grace(); });
  trainer.StopWhen([&stop] { return stop.reason() != StopReason::kNone; });
  try {
    if (rank.rank == 0 && joins) {
      ReplaceRankZero(job, rank, environment, recorder, stop, trainer);
    } else if (rank.rank == 0) {
      TrainAsRankZero(job, rank, environment, recorder, stop, trainer);
    } else {
      BuildAndTune(job, environment, trainer, joins);
      RunStart of_rank_zero;
      if (!joins) {
        AskNodesForRun(job.config, rank, environment, of_rank_zero, mesh.control.get());
      }
      joins ? trainer.JoinAsReplacement() : void(Resume(job, rank, of_rank_zero, trainer));
      trainer.Fit(nullptr);
    }
  } catch (const FailureOfAllRanks& failure) {
    const int status = ReportFailure(failure.error(), environment, rank.rank == 0);
    // The launcher stops all ranks when the first rank ends, so rank 0 must report the error first.
    trainer.WaitForAllRanks();
    return status;
  }
  const bool resumes = trainer.stopped() && !trainer.checkpoints().ended();
  return resumes ? StopStatus(stop.reason()) : 0;
}

}  // namespace

int RunWorker(const Job& job, const Environment& environment) {
  // Outlives the report of a failure, because the end of a group may wait for other ranks.
  Mesh mesh;
  try {
    NoteStopSignals(environment);
    const StopRequest stop(job.config.run, environment);
    SetThreads(job.config.training, environment);
    ChooseMathKernels();
    CacheTensorMemory();
    const RankInfo rank = ValueOrThrow(ReadRankInfo(environment));
    NameInStacks("rank " + std::to_string(rank.rank));
    const StepPlan plan = PlanFor(job, rank.world_size);
    const bool joins = FirstGeneration(environment) > 0;
    if (!joins) CheckNeeds(job, rank);  // counts all ranks, and the others are running
    const std::shared_ptr<FlightRecorder> recorder = AttachFlightRecorder(environment, rank);
    const auto restarts = environment.GetInt("TORCHELASTIC_RESTART_COUNT", 0, 0, 1 << 30);
    NoteStart(environment, rank.local_rank, rank.world_size,
              static_cast<int>(restarts ? *restarts : 0));
    const Log log =
        OpenLog("rank " + std::to_string(rank.rank), environment, recorder,
                [](std::string_view line) { std::fwrite(line.data(), 1, line.size(), stderr); });
    log.Debug("meeting the other ranks", {{"world_size", std::to_string(rank.world_size)}});
    mesh = MeetOthers(job, rank, environment, recorder, log);
    if (mesh.device.is_cuda()) {
      NoteGpu(environment, rank.local_rank, job.device.module->bus_id(mesh.device.index()));
    }
    const int status = Train(job, plan, rank, environment, recorder, stop, mesh, log);
    mesh.ShutDown();
    return status;
  } catch (...) {
    const Error error = CurrentDeviceError([&job, &environment] {
      const RankInfo rank = ValueOrThrow(ReadRankInfo(environment));
      return MemoryText(EstimateMemory(job, rank.world_size, rank.local_world_size));
    });
    return ReportFailure(error, environment);
  }
}

}  // namespace ddprun::trainer
