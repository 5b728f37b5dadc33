#include "trainer/loop/run_worker.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <filesystem>
#include <limits>

#include "base/failure.h"
#include "base/last_words.h"
#include "base/log.h"
#include "base/stop_signals.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/comm/bootstrap.h"
#include "trainer/compute/block_cache.h"
#include "trainer/config/config_warnings.h"
#include "trainer/config/slot.h"
#include "trainer/loop/build_strategy.h"
#include "trainer/loop/compute_setup.h"
#include "trainer/loop/device_mesh.h"
#include "trainer/loop/estimate_memory.h"
#include "trainer/loop/options_of.h"
#include "trainer/loop/resume.h"
#include "trainer/loop/sample_text.h"
#include "trainer/loop/stop_request.h"
#include "trainer/loop/trainer.h"
#include "trainer/models/pretrained.h"
#include "trainer/report/format.h"
#include "trainer/report/metrics_file.h"
#include "trainer/report/run_folder.h"
#include "trainer/report/state_hashes.h"
#include "trainer/report/terminal.h"
#include "trainer/report/time_ledger.h"

namespace ddprun::trainer {

namespace {

// The number that the launcher gives: LibTorch has read the variable when it was loaded, which
// for a worker forked from the template was before the launcher said it. Virtual ranks have one
// each, however many processes there are: sums of several threads have other bits.
void SetThreads(const TrainingConfig& training, const Environment& environment) {
  if (training.virtual_ranks > 0) return at::set_num_threads(1);
  const int64_t threads = ValueOrThrow(environment.GetInt("OMP_NUM_THREADS", 0, 1, 4096));
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

Mesh MeetOthers(const Job& job,
              const RankInfo& rank,
              const Environment& environment,
              std::shared_ptr<FlightRecorder> recorder,
              const Log& log) {
  const auto timeout = std::chrono::seconds(job.config.comm.init_timeout_seconds);
  const StrategyType type = StrategyOf(job.config, rank.world_size);
  Mesh mesh;
  if (!job.config.strategy.devices.empty()) {
    mesh.device = DevicesOf(job.config.strategy)[0];
    return mesh;
  }
  if (type != StrategyType::kSingle) {
    auto group = InitProcessGroup(environment, timeout, std::move(recorder));
    group->SetAllReduceAlgorithm(job.config.comm.algorithm);
    mesh = MakeMesh(group, MeshShapeOf(job.config, rank.world_size));
  }
  // Others recover from no rank but one on the CPU, and are in the middle of training.
  if (FirstGeneration(environment) > 0) return mesh;
  const std::string note = PutOnDevices(job.config.run.device, job.device, rank.local_rank,
                                        environment, timeout, mesh);
  if (!note.empty() && rank.rank == 0) log.Warning(note);
  return mesh;
}

// What LOGLEVEL shows goes to `sink`; the flight recorder keeps the last lines of all.
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

RunHeader HeaderOf(const Job& job,
                   const RankInfo& rank,
                   const Environment& environment,
                   const RunFolder& folder,
                   const Trainer& trainer,
                   int64_t parameters) {
  RunHeader header;
  header.run_name = folder.name;
  header.config_hash = folder.config_hash;
  header.world_size = rank.world_size;
  // Nodes may have different numbers of ranks; other launchers than ddprun and torchrun, which
  // say how many nodes there are, make them alike.
  const int alike = rank.world_size / rank.local_world_size;
  header.nodes = static_cast<int>(ValueOrThrow(
      environment.GetInt("GROUP_WORLD_SIZE", alike, 1, std::numeric_limits<int>::max())));
  header.local_world_size = rank.local_world_size;
  header.strategy = Word(StrategyOf(job.config, rank.world_size));
  header.parameters = parameters;
  header.facts = {{"device", trainer.mesh().device.str()},
                  {"threads", std::to_string(at::get_num_threads())}};
  const int64_t virtual_ranks = job.config.training.virtual_ranks;
  if (virtual_ranks > 0) header.facts.push_back({"virtual_ranks", std::to_string(virtual_ranks)});
  return header;
}

std::string Announcement(const Job& job, const RunHeader& header, const Trainer& trainer) {
  const int64_t virtual_ranks = job.config.training.virtual_ranks;
  return "run " + header.run_name + ": " + std::to_string(header.parameters) + " parameters, " +
         std::to_string(job.train->size()) + " samples, " + std::to_string(header.world_size) +
         (header.world_size == 1 ? " rank" : " ranks") + " x " +
         std::to_string(at::get_num_threads()) +
         (at::get_num_threads() == 1 ? " thread" : " threads") +
         (virtual_ranks > 0 ? ", " + std::to_string(virtual_ranks) + " virtual ranks" : "") +
         ", batch " +
         std::to_string(trainer.plan().step_samples) + ", " +
         std::to_string(trainer.plan().total_steps) + " steps, " +
         MemoryText(EstimateMemory(job, static_cast<int>(header.world_size)));
}

std::string FreshText(const Job& job, const Trainer& trainer) {
  std::string names;
  for (const std::string& name : trainer.fresh_parameters()) {
    names += (names.empty() ? "" : ", ") + name;
  }
  return "fresh weights, not in " + job.config.model.name_or_path + ": " + names;
}

Failure WeightsNotSaved(const Job& job, const RunStart& start, Trainer& trainer, Error cause) {
  std::string hint =
      "They are lost; the metrics that were written are kept. Make room or let the folder be "
      "written\nto, or give another one (run.output_dir), and train again.";
  const std::string checkpoint = CheckpointPath(start.place.folder, trainer.step());
  if (std::filesystem::exists(checkpoint)) {
    hint = "They are not lost: " + checkpoint + " has them.\n";
    if (!job.config.checkpoint.save_only_model) {
      hint += "Make room or let the folder be written to, and start again with run.resume \"" +
              start.folder.path + "\":\nno step is done again. Or take";
    } else {
      hint += "Take";
    }
    hint += " them from there: ddp-trainer checkpoint export";
  }
  const auto bytes = static_cast<double>(StateBytes(trainer.model()));
  return Failure(Error{.code = Code::kFailed,
                       .title = "WEIGHTS NOT SAVED",
                       .where = cause.where,
                       .what = "Training has ended, but its weights, " + ByteText(bytes) +
                               ", could not be saved:\n" + cause.what,
                       .hint = std::move(hint),
                       .page = "weights-not-saved"});
}

// What rank 0 leaves behind when training has ended.
void Finish(const Job& job, const RunStart& start, Trainer& trainer, const Observers& observers) {
  const RunFolder& folder = start.folder;
  if (job.config.checkpoint.save_at_end) {
    const std::string path = folder.path + "/model";
    const ModelConfig& model = job.config.model;
    // A weights file by itself has no companions.
    const bool folder_given = std::filesystem::is_directory(model.name_or_path);
    try {
      SavePretrained(trainer.model(), path,
                     {.source = folder_given ? model.name_or_path : "",
                      .tokenizer = job.config.data.tokenizer,
                      .labels = job.train->shape().labels,
                      .files = job.model_files});
    } catch (const Failure& failure) {
      Error cause = failure.error();
      cause.where = path;
      throw WeightsNotSaved(job, start, trainer, std::move(cause));
    }
    observers.Note("weights: " + path + "/model.safetensors");
  }
  auto* language_model = dynamic_cast<LanguageModel*>(&trainer.model());
  if (job.config.evaluation.sample_length > 0 && language_model != nullptr) {
    observers.Note("sample:\n" + SampleText(*language_model, job.config));
  }
  observers.Note("run folder: " + folder.path);
}

bool IsRestart(const Environment& environment) {
  const auto count = environment.GetInt("TORCHELASTIC_RESTART_COUNT", 0, 0, 1 << 30);
  return count && *count > 0;
}

std::string StoppedText(const Trainer& trainer, const StopRequest& stop, const RunFolder& folder) {
  return "stopped after step " + std::to_string(trainer.step()) + " of " +
         std::to_string(trainer.plan().total_steps) + ": " + TextOf(stop.reason()) +
         "; to go on: ddprun --resume " + folder.path;
}

// What the launcher does with a rank that was killed, where it may be replaced, is its own affair:
// FlightRecorder::SetRecovers tells it.
bool RecoversFromPeers(const Config& config,
                       const RankInfo& rank,
                       const Environment& environment,
                       const Log& log) {
  const auto restarts = environment.GetInt("TORCHELASTIC_MAX_RESTARTS", 0, 0, 1 << 30);
  if (rank.world_size == 1 || config.run.recovery == "none" || !restarts || *restarts == 0) {
    return false;
  }
  std::string obstacle = RecoveryObstacle(config);
  if (rank.local_world_size != rank.world_size) obstacle = "several nodes";
  if (!obstacle.empty()) log.Debug("no recovery without a restart", {{"because_of", obstacle}});
  return obstacle.empty();
}

// Weights, then what computes best with them: a line for people, or "".
std::string Build(const Job& job,
                  const Environment& environment,
                  Trainer& trainer,
                  bool joins = false) {
  trainer.Build(joins);
  if (!trainer.mesh().device.is_cpu()) return "";
  return SetUpCompute(job.config.training, ParameterCount(trainer.model()), environment);
}

// The same on all ranks, once there are weights: takes up what the checkpoint has. Returns what has
// changed since, a line each. `start`: rank 0's; of the others none knows more than they are told.
std::vector<std::string> GoOn(const Job& job, const RunStart& start, Trainer& trainer) {
  const SharedStart shared = ShareStart(
      trainer.mesh().control.get(),
      {.place = start.place, .checkpoint = start.checkpoint ? start.checkpoint->path() : ""});
  trainer.SaveTo(shared.place);
  if (shared.checkpoint.empty()) return {};
  const Checkpoint checkpoint =
      start.checkpoint ? *start.checkpoint
                       : ValueOrThrow(Checkpoint::Open(shared.checkpoint, Verify::kSizes));
  std::vector<std::string> changes = CompareRuns(checkpoint, job, trainer.plan());
  const std::string engine = KeepEngine(job.config.training, checkpoint.run());
  if (!engine.empty()) changes.push_back(engine);
  trainer.Restore(checkpoint);
  return changes;
}

Observers WatchRun(const ReportConfig& config, const RunFolder& folder) {
  const std::string metrics = folder.path + "/metrics.jsonl";
  Observers observers;
  Observer& terminal = observers.Add(std::make_unique<Terminal>(
      TerminalOptions{.bar_fd = ProgressBarFd(config.progress_bar), .numbers_in = metrics}));
  observers.Add(std::make_unique<TimeLedger>(metrics, terminal));
  observers.Add(std::make_unique<MetricsFile>(metrics, terminal));
  if (config.state_hashes) {
    const std::string path = folder.path + "/" + kStateHashesName;
    observers.Add(std::make_unique<StateHashFile>(path, terminal));
  }
  return observers;
}

void TrainAsRankZero(const Job& job,
                     const RankInfo& rank,
                     const Environment& environment,
                     const std::shared_ptr<FlightRecorder>& recorder,
                     const StopRequest& stop,
                     Trainer& trainer) {
  // What is to come is said before the weights, which may take long. Only a model of the user's own
  // has to be there to be counted.
  std::string compute;
  if (job.shape == nullptr) compute = Build(job, environment, trainer);
  const int64_t parameters = ParameterCount(job.shape ? *job.shape : trainer.model());
  const RunStart start = ChooseRunStart(job.config, environment, ReportTime::Now().unix_seconds);
  const RunFolder& folder = start.folder;
  RunHeader header = HeaderOf(job, rank, environment, folder, trainer, parameters);
  if (start.checkpoint) header.resumed_step = start.checkpoint->step();
  const Observers observers = WatchRun(job.config.report, folder);
  observers.Tell(&Observer::OnBegin, header);
  observers.Note(Announcement(job, header, trainer));
  const Log log = OpenLog("", environment, recorder, [&observers](std::string_view line) {
    observers.Note(line.substr(0, line.size() - 1));
  });
  for (const std::string& note : job.model_notes) log.Info("model: " + note);
  for (const std::string& note : job.data_notes) log.Info("data: " + note);
  for (const std::string& warning : WarningsOf(job, trainer.plan())) log.Warning(warning);
  for (const std::string& note : start.notes) log.Warning(note);
  try {
    if (job.shape != nullptr) compute = Build(job, environment, trainer);
    if (!compute.empty()) log.Info(compute);
    if (!trainer.fresh_parameters().empty()) log.Info(FreshText(job, trainer));
    for (const std::string& change : GoOn(job, start, trainer)) log.Warning(change);
    if (start.checkpoint) {
      observers.Note("going on after step " + std::to_string(trainer.step()) + ": " +
                     start.checkpoint->path());
    } else if (IsRestart(environment)) {
      observers.Note("no checkpoint yet: training begins again at step 1");
    }
    const bool done = trainer.step() >= trainer.plan().total_steps;
    trainer.Fit(&observers);
    if (trainer.stopped()) observers.Note(StoppedText(trainer, stop, folder));
    if (done) observers.Note("nothing to do: the run has done all of its steps");
    // A run that was killed between its last step and here has no weights yet.
    if (!trainer.stopped() && !(done && std::filesystem::exists(folder.path + "/model"))) {
      Finish(job, start, trainer, observers);
    }
  } catch (...) {
    const RunEnd end{.reason = "failed", .step = trainer.step(), .message = CurrentError().what};
    observers.Tell(&Observer::OnEnd, end);
    throw;
  }
  const char* const reason = trainer.stopped() ? "stopped" : "finished";
  observers.Tell(&Observer::OnEnd, RunEnd{.reason = reason, .step = trainer.step()});
}

}  // namespace

int RunWorker(const Job& job, const Environment& environment) {
  try {
    NoteStopSignals(environment);
    const StopRequest stop(job.config.run, environment);
    SetThreads(job.config.training, environment);
    CacheTensorMemory();
    const RankInfo rank = ValueOrThrow(ReadRankInfo(environment));
    NameInStacks("rank " + std::to_string(rank.rank));
    const StepPlan plan = PlanFor(job, rank.world_size);
    const bool joins = FirstGeneration(environment) > 0;
    if (!joins) CheckNeeds(job, rank);  // of all ranks, and the others have what they need
    const std::shared_ptr<FlightRecorder> recorder = AttachFlightRecorder(environment, rank);
    const Log log =
        OpenLog("rank " + std::to_string(rank.rank), environment, recorder,
                [](std::string_view line) { std::fwrite(line.data(), 1, line.size(), stderr); });
    log.Debug("meeting the other ranks", {{"world_size", std::to_string(rank.world_size)}});
    Trainer trainer(job, plan, MeetOthers(job, rank, environment, recorder, log), recorder, log);
    if (recorder != nullptr && RecoversFromPeers(job.config, rank, environment, log)) {
      trainer.RecoverFromPeers();
    }
    trainer.StopWhen([&stop] { return stop.reason() != StopReason::kNone; });
    try {
      if (rank.rank == 0) {
        TrainAsRankZero(job, rank, environment, recorder, stop, trainer);
      } else {
        Build(job, environment, trainer, joins);
        joins ? trainer.TakePlace() : void(GoOn(job, {}, trainer));
        trainer.Fit(nullptr);
      }
    } catch (const FailureOfAllRanks& failure) {
      const int status = ReportFailure(failure.error(), environment, rank.rank == 0);
      // The launcher stops the others when the first one ends: not before rank 0 has said it.
      trainer.WaitForAllRanks();
      return status;
    }
    return trainer.stopped() ? StopStatus(stop.reason()) : 0;
  } catch (...) {
    const Error error = CurrentDeviceError([&job, &environment] {
      return MemoryText(EstimateMemory(job, ValueOrThrow(ReadRankInfo(environment)).world_size));
    });
    return ReportFailure(error, environment);
  }
}

}  // namespace ddprun::trainer
