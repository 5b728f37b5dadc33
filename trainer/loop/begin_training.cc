#include "trainer/loop/begin_training.h"

#include "base/failure.h"
#include "trainer/config/config_warnings.h"
#include "trainer/loop/compute_setup.h"

namespace ddprun::trainer {

namespace {

// Where not all ranks see the folder of the checkpoints: what is saved all the same, a line.
std::string SaveWithoutSharedFolder(const Job& job,
                                    const SharedStart& start,
                                    const FolderView& view,
                                    Trainer& trainer) {
  const CheckpointPlace& place = start.place;
  const std::string own_state = KeyOfOwnState(job.config);
  if (own_state.empty()) {
    trainer.SaveTo(place, view.part);
    return "not all hosts see " + place.folder +
           ": the ranks beside rank 0 save, and what a run goes on from is sent to the others";
  }
  const CheckpointConfig& checkpoint = job.config.checkpoint;
  const bool saves = checkpoint.save_steps.amount > 0 || !checkpoint.save_best.empty();
  if (!saves && start.saved.path.empty()) {
    return "not all hosts see " + place.folder + ", and with " + own_state +
           " each has a part of the state: nothing is saved, also not where the run is stopped";
  }
  throw FailureOfAllRanks(
      Error{.code = Code::kUsage,
            .title = "NO SHARED FOLDER",
            .where = place.folder,
            .what = "Rank 0 writes checkpoints there, but not all hosts see it. With " + own_state +
                    " each rank\nhas a part of the state and has to write it there.",
            .hint = "Name a folder that all hosts share (checkpoint.dir), or save nothing "
                    "(checkpoint.save_steps 0).",
            .page = "no-shared-folder"});
}

}  // namespace

Log OpenLog(const std::string& name,
            const Environment& environment,
            std::shared_ptr<FlightRecorder> recorder,
            Log::Sink sink) {
  const auto level = ParseLogLevel(environment.GetOr("LOGLEVEL", ""));
  Log log({.name = name, .level = level.value_or(LogLevel::kInfo)}, std::move(sink));
  if (recorder != nullptr) {
    log.CopyTo([recorder = std::move(recorder)](std::string_view line) { recorder->Say(line); });
  }
  return log;
}

std::string Build(const Job& job, const Environment& environment, Trainer& trainer, bool joins) {
  SetUpDevices(job.config.training);
  trainer.Build(joins);
  if (!trainer.mesh().device.is_cpu()) return "";
  return SetUpCompute(job.config.training, ParameterCount(trainer.model()), environment);
}

std::vector<std::string> GoOn(const Job& job,
                              const RankInfo& rank,
                              const RunStart& start,
                              Trainer& trainer) {
  c10d::Backend* const control = trainer.mesh().control.get();
  const Checkpoint* const own = start.checkpoint ? &*start.checkpoint : nullptr;
  const SharedStart shared =
      ShareStart(control, {.place = start.place, .saved = own ? SavedRun(*own) : SavedRun()});
  const bool several_nodes = rank.local_world_size != rank.world_size;
  const FolderView view =
      several_nodes ? LookAtFolder(shared.place, control)
                    : FolderView{.part = RankPart{.rank = rank.rank, .size = rank.world_size}};
  std::vector<std::string> lines;
  if (view.by_all) {
    trainer.SaveTo(shared.place, view.part);
  } else {
    lines.push_back(SaveWithoutSharedFolder(job, shared, view, trainer));
  }
  if (shared.saved.path.empty()) return lines;
  const std::vector<std::string> changes = CompareRuns(shared.saved, job, trainer.plan());
  lines.insert(lines.end(), changes.begin(), changes.end());
  const std::string engine = KeepEngine(job.config.training, shared.saved.run);
  if (!engine.empty()) lines.push_back(engine);
  if (!view.by_all) {
    trainer.RestoreFromRankZero(own);
  } else {
    trainer.Restore(own ? *own : ValueOrThrow(Checkpoint::Open(shared.saved.path, Verify::kSizes)));
  }
  return lines;
}

}  // namespace ddprun::trainer
