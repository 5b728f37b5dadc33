#include "trainer/worker/begin_training.h"

#include <optional>
#include <utility>

#include "base/failure.h"
#include "trainer/checkpoint/commit.h"
#include "trainer/comm/packed_error.h"
#include "trainer/config/facts.h"
#include "trainer/job/run_text.h"
#include "trainer/parallel/whole_state.h"
#include "trainer/worker/compute_setup.h"

namespace ddprun::trainer {

namespace {

// Decides what to save if not all ranks see the checkpoint folder. Returns a line about it.
std::string SaveWithoutSharedFolder(const Job& job,
                                    const SharedStart& start,
                                    const FolderView& view,
                                    Trainer& trainer) {
  const CheckpointPlace& place = start.place;
  const std::string own_state = SettingThatMakes({fact::kOwnState}, job.config);
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

SharedStart Share(c10d::Backend* control, const RunStart& start) {
  SharedStart own{.place = start.place};
  if (start.checkpoint) {
    own.saved = SavedRun(*start.checkpoint);
    own.place.of_another_run = start.folder.made || start.checkpoint->path() == start.folder.origin;
  }
  return ShareStart(control, own);
}

// A collective. Each rank that sees the checkpoint opens it as `opened`, unless `start` has it, and
// checks its part of the bytes. Returns the damage, equal on all ranks. Throws FailureOfAllRanks if
// a rank cannot read.
std::optional<Error> Check(const std::string& path,
                           const std::optional<RankPart>& part,
                           const RunStart& start,
                           std::optional<Checkpoint>& opened,
                           c10d::Backend* control) {
  std::optional<Error> error;
  if (!start.checkpoint && part) {
    auto result = Checkpoint::Open(path, Verify::kSizes);
    if (result) {
      opened = *std::move(result);
    } else {
      // This is no damage, because rank 0 has opened the checkpoint: this rank sees it later.
      error = UnreadableCheckpoint("", 0);
      error->where = result.error().where;
      error->what = result.error().what;
    }
  }
  const Checkpoint* const own = start.checkpoint ? &*start.checkpoint : opened ? &*opened : nullptr;
  if (!error && part && own != nullptr) {
    if (Status status = own->CheckBytes(*part); !status.ok()) error = std::move(status).error();
  }
  std::optional<Error> found;
  for (const std::string& packed : ExchangeTexts(control, error ? PackError(*error) : "")) {
    if (packed.empty()) continue;
    found = UnpackError(packed);
    if (!IsDamage(*found)) throw FailureOfAllRanks(*found);
  }
  return found;
}

}  // namespace

Log OpenLog(const std::string& name,
            const Environment& environment,
            std::shared_ptr<FlightRecorder> recorder,
            Log::Sink sink) {
  const auto level = ParseLogLevel(environment.GetOr("LOGLEVEL", ""));
  Log log({.name = name, .level = level.value_or(LogLevel::kInfo)}, std::move(sink));
  if (recorder != nullptr) {
    log.CopyTo(
        [recorder = std::move(recorder)](std::string_view line) { recorder->NoteLine(line); });
  }
  return log;
}

std::string BuildAndTune(const Job& job,
                         const Environment& environment,
                         Trainer& trainer,
                         bool joins) {
  SetUpDevices(job.config.training, std::holds_alternative<BertOptions>(job.model));
  const c10::Device device = trainer.mesh().device;
  const std::string kernels = SetUpKernels(job, device);
  trainer.Build(joins);
  if (!device.is_cpu()) return kernels;
  return SetUpCompute(job.config.training, ParameterCount(trainer.model()), environment);
}

std::vector<std::string> Resume(const Job& job,
                                const RankInfo& rank,
                                RunStart& start,
                                Trainer& trainer) {
  c10d::Backend* const control = trainer.mesh().control.get();
  SharedStart shared = Share(control, start);
  const bool several_nodes = rank.local_world_size != rank.world_size;
  const FolderView view =
      several_nodes ? LookAtFolder(shared.place, control)
                    : FolderView{.part = RankPart{.rank = rank.rank, .size = rank.world_size}};
  std::vector<std::string> lines;
  if (view.by_all) {
    trainer.SaveTo(shared.place, view.part);
  } else {
    lines.push_back(SaveWithoutSharedFolder(job, shared, view, trainer));
    trainer.ReplaceLostRanks(false);  // a replacement would not know which ranks save
  }
  std::optional<Checkpoint> opened;
  while (!shared.saved.path.empty()) {
    const std::optional<Error> damage = Check(shared.saved.path, view.part, start, opened, control);
    if (!damage) break;
    if (rank.rank == 0) PassOver(*damage, start);
    shared = Share(control, start);
  }
  if (shared.saved.path.empty()) return lines;
  start.changes = CompareRuns(shared.saved, job, trainer.plan());
  lines.insert(lines.end(), start.changes.begin(), start.changes.end());
  const std::string engine = KeepEngine(job.config.training, shared.saved.run);
  if (!engine.empty()) lines.push_back(engine);
  const Checkpoint* const own = start.checkpoint ? &*start.checkpoint : nullptr;
  if (!view.by_all) {
    trainer.RestoreFromRankZero(own);
  } else {
    const bool mean = trainer.Restore(own ? *own : *opened);
    if (mean) {
      lines.emplace_back(
          "Each rank begins with the mean of what the saved run's ranks had of their own: the "
          "errors of power_sgd, the models of post_local_sgd, or buffers.");
    }
  }
  if (OwesEvaluation(shared.saved.run)) trainer.EvaluateFirst();
  return lines;
}

}  // namespace ddprun::trainer
