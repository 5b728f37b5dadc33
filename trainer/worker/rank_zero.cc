#include "trainer/worker/rank_zero.h"

#include <ATen/Parallel.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "base/flight_notes.h"
#include "base/last_words.h"
#include "base/shell_text.h"
#include "base/text.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/config/config_warnings.h"
#include "trainer/config/library_defaults.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/config/slot.h"
#include "trainer/job/estimate_memory.h"
#include "trainer/job/plan_job.h"
#include "trainer/report/event_command.h"
#include "trainer/report/format.h"
#include "trainer/report/metrics_file.h"
#include "trainer/report/rate_search.h"
#include "trainer/report/resume_note.h"
#include "trainer/report/run_folder.h"
#include "trainer/report/run_requests.h"
#include "trainer/report/slow_ranks.h"
#include "trainer/report/state_hashes.h"
#include "trainer/report/tensorboard_file.h"
#include "trainer/report/terminal.h"
#include "trainer/report/time_ledger.h"
#include "trainer/report/trace_file.h"
#include "trainer/worker/begin_training.h"
#include "trainer/worker/best_checkpoint.h"
#include "trainer/worker/elastic_warning.h"
#include "trainer/worker/job_watch.h"
#include "trainer/worker/live_notes.h"
#include "trainer/worker/plugin_observer.h"
#include "trainer/worker/requeued_run.h"
#include "trainer/worker/sample_text.h"
#include "trainer/worker/save_weights.h"
#include "trainer/worker/test_at_end.h"

namespace ddprun::trainer {

namespace {

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
  // ddprun and torchrun set the number of nodes, which may have different numbers of ranks. With
  // other launchers, all nodes have equally many ranks.
  const int alike = rank.world_size / rank.local_world_size;
  header.nodes = static_cast<int>(ValueOrThrow(
      environment.GetInt("GROUP_WORLD_SIZE", alike, 1, std::numeric_limits<int>::max())));
  header.local_world_size = rank.local_world_size;
  header.strategy = Word(TypeFor(job.config, rank.world_size));
  header.parameters = parameters;
  header.facts = {{"device", trainer.mesh().device.str()},
                  {"threads", std::to_string(at::get_num_threads())}};
  const int64_t virtual_ranks = job.config.training.virtual_ranks;
  if (virtual_ranks > 0) header.facts.push_back({"virtual_ranks", std::to_string(virtual_ranks)});
  const std::string& best = job.config.checkpoint.save_best;
  if (!best.empty()) header.facts.push_back({"save_best", best});
  return header;
}

std::string Announcement(const Job& job,
                         const RankInfo& rank,
                         const RunHeader& header,
                         const Trainer& trainer) {
  const int64_t virtual_ranks = job.config.training.virtual_ranks;
  return "run " + header.run_name + ": " + CountText(header.parameters, "parameter") + ", " +
         CountText(job.train->size(), "sample") + ", " + CountText(header.world_size, "rank") +
         " x " + CountText(at::get_num_threads(), "thread") +
         (virtual_ranks > 0 ? ", " + CountText(virtual_ranks, "virtual rank") : "") + ", batch " +
         std::to_string(trainer.plan().step_samples) + ", " +
         CountText(trainer.plan().total_steps, "step") + ", " +
         MemoryText(EstimateMemory(job, rank.world_size, rank.local_world_size));
}

std::string FreshText(const Job& job, const Trainer& trainer) {
  return "fresh weights, not in " + job.config.model.name_or_path + ": " +
         FormatList(trainer.notes().fresh_parameters);
}

std::string MetricsPath(const std::string& run) {
  return run + "/metrics.jsonl";
}

// Saves the weights, tests them, and notes what the run leaves behind. `done`: an earlier start has
// done the last step, and may have been killed before it did all of this.
void Finish(const Job& job,
            const RunStart& start,
            const StopRequest& stop,
            const std::shared_ptr<FlightRecorder>& recorder,
            bool done,
            Trainer& trainer,
            const Observers& observers) {
  const RunFolder& folder = start.folder;
  const CheckpointConfig& checkpoint = job.config.checkpoint;
  const bool saved = done && std::filesystem::exists(folder.path + "/model");
  const bool tests = job.test != nullptr && (!done || OwesTest(job, MetricsPath(folder.path)));
  if (saved && !tests) return;
  int64_t step = trainer.step();
  if (checkpoint.load_best_model_at_end) {
    step = LoadBest(start.place.folder, step, trainer.model(), observers);
  }
  if (checkpoint.save_at_end && !saved) SaveWeights(job, start, step, trainer, observers);
  if (tests) {
    TestAtEnd(job, step, trainer.plan().steps_per_epoch, stop, recorder, trainer.model(),
              observers);
  }
  auto* language_model = dynamic_cast<LanguageModel*>(&trainer.model());
  if (job.config.evaluation.sample_length > 0 && language_model != nullptr) {
    observers.Note("sample:\n" + SampleText(*language_model, job.config));
  }
  observers.Note("run folder: " + folder.path);
}

// Returns the command that resumes the run, with as many processes as now, because otherwise a step
// may have other samples. Returns "" if checkpoints have the model alone.
std::string ResumeCommand(const Job& job,
                          const Environment& environment,
                          const RunHeader& header,
                          const RunFolder& folder) {
  if (job.config.checkpoint.save_only_model) return "";
  // As given to this node.
  std::string command = "ddprun " + environment.GetOr("DDPRUN_NODE_FLAGS", "");
  if (header.local_world_size > 1) {
    command += "--nproc_per_node=" + std::to_string(header.local_world_size) + " ";
  }
  return command + "--resume " + QuoteForShell(folder.path);
}

std::string StoppedText(Trainer& trainer, const std::string& reason) {
  return "stopped after step " + std::to_string(trainer.step()) + " of " +
         std::to_string(trainer.plan().total_steps) +
         (trainer.gave_up_step() ? ", the next one would not have ended in time" : "") + ": " +
         reason;
}

// Returns whether there is a checkpoint, of this run or of another, from which the command resumes.
bool CanResume(const std::string& command, const RunStart& start) {
  if (command.empty()) return false;
  if (start.checkpoint) return true;
  const auto stored = ListCheckpoints(start.place.folder);
  return stored && !stored->empty();
}

// Adds the observers that write to the page of the flight recorder.
void AddFlightNotes(const RunStart& start,
                    const Environment& environment,
                    int local_rank,
                    const std::string& command,
                    Observers& observers) {
  observers.Add(std::make_unique<RunNumbers>(environment, local_rank));
  if (command.empty()) return;
  observers.Add(std::make_unique<ResumeNote>(command, CanResume(command, start),
                                             [environment, local_rank](std::string_view left) {
                                               NoteResumeCommand(environment, local_rank, left);
                                             }));
}

// Adds the observers of a job of a batch system.
void AddJob(const StopRequest& stop,
            const Environment& environment,
            Observer& terminal,
            Observers& observers) {
  observers.Add(std::make_unique<JobWatch>(stop, terminal));
  const std::string path = environment.GetOr("DDPRUN_GAINED_STEPS_FILE", "");
  if (!path.empty()) observers.Add(std::make_unique<GainedSteps>(path));
}

Observer& AddTerminal(const ReportConfig& config,
                      const Environment& environment,
                      const RunFolder& folder,
                      Observers& observers) {
  return observers.Add(std::make_unique<Terminal>(
      TerminalOptions{.bar_fd = ProgressBarFd(config.progress_bar, environment),
                      .numbers_in = MetricsPath(folder.path)}));
}

// Adds the observers that write the run's files, and those of the user. `continues_file` is the
// argument of MetricsFile.
void AddFiles(const Config& all,
              const RunStart& start,
              Observer& terminal,
              Observers& observers,
              bool continues_file = false) {
  const ReportConfig& config = all.report;
  const RunFolder& folder = start.folder;
  const std::string metrics = MetricsPath(folder.path);
  observers.Add(
      std::make_unique<TimeLedger>(metrics, terminal, continues_file, start.idle_seconds));
  observers.Add(std::make_unique<MetricsFile>(metrics, terminal, continues_file));
  observers.Add(std::make_unique<SlowRanks>(terminal));
  if (config.tensorboard) {
    observers.Add(std::make_unique<TensorboardFile>(folder.path, terminal, continues_file));
  }
  if (!config.on_event.empty()) {
    observers.Add(
        std::make_unique<EventCommand>(config.on_event, folder.path, terminal, continues_file));
  }
  if (!config.plugin.empty()) {
    observers.Add(std::make_unique<PluginObserver>(config, folder.path, terminal));
  }
  if (!config.trace_steps.empty()) {
    observers.Add(std::make_unique<TraceFile>(folder.path + "/trace.json", config.trace_steps,
                                              terminal, continues_file));
  }
  if (!all.scheduler.range_test.empty()) observers.Add(std::make_unique<RateSearch>(terminal));
  if (config.state_hashes) {
    const std::string path = folder.path + "/" + kStateHashesName;
    observers.Add(std::make_unique<StateHashFile>(path, terminal));
  }
}

// Calls `prepare`, trains to the end of the run, and saves the weights. Reports all failures.
void TrainToTheEnd(const Job& job,
                   const RunStart& start,
                   const StopRequest& stop,
                   const std::shared_ptr<FlightRecorder>& recorder,
                   const std::string& resume_command,
                   Trainer& trainer,
                   const Observers& observers,
                   const std::function<void()>& prepare) {
  const auto requests = std::make_shared<RunRequests>(start.folder.path);
  trainer.checkpoints().Ask(requests);
  try {
    prepare();
    // A rank 0 that replaces a lost rank after the last step must still write the weights.
    const bool done = start.checkpoint && trainer.step() >= trainer.plan().total_steps;
    trainer.Fit(&observers);
    if (trainer.stopped()) {
      const std::string reason = trainer.checkpoints().ended() ? requests->StopText() : stop.Text();
      std::string next = "it has no checkpoint to go on from";
      if (CanResume(resume_command, start)) next = "to go on: " + resume_command;
      if (NodesJoinAnew()) next = "the job goes on by itself";
      observers.Note(StoppedText(trainer, reason) + "; " + next);
    }
    if (done) observers.Note("nothing to do: the run has done all of its steps");
    if (!trainer.stopped()) Finish(job, start, stop, recorder, done, trainer, observers);
  } catch (...) {
    const RunEnd end{.reason = "failed", .step = trainer.step(), .message = CurrentError().what};
    if (start.begun && CanResume(resume_command, start))
      observers.Note("to go on: " + resume_command);
    observers.Notify(&Observer::OnEnd, end);
    throw;
  }
  requests->Remove();
  const char* const reason = trainer.stopped() ? "stopped" : "finished";
  observers.Notify(&Observer::OnEnd, RunEnd{.reason = reason, .step = trainer.step()});
}

}  // namespace

void ReplaceRankZero(const Job& job,
                     const RankInfo& rank,
                     const Environment& environment,
                     const std::shared_ptr<FlightRecorder>& recorder,
                     const StopRequest& stop,
                     Trainer& trainer) {
  BuildAndTune(job, environment, trainer, /*joins=*/true);
  trainer.JoinAsReplacement();
  const RunStart start{
      .folder = TakeOverRun(trainer.checkpoints().place().run, job.config, environment),
      .place = trainer.checkpoints().place(),
      .begun = true};
  const WrittenSteps written = ValueOrThrow(CutLastLine(MetricsPath(start.folder.path)));
  Observers observers;
  Observer& terminal = AddTerminal(job.config.report, environment, start.folder, observers);
  AddFiles(job.config, start, terminal, observers, /*continues_file=*/true);
  const int64_t parameters = ParameterCount(trainer.model());
  RunHeader header = HeaderOf(job, rank, environment, start.folder, trainer, parameters);
  header.resumed_step = trainer.step();
  const std::string resume_command = ResumeCommand(job, environment, header, start.folder);
  AddFlightNotes(start, environment, rank.local_rank, resume_command, observers);
  AddJob(stop, environment, terminal, observers);
  observers.Notify(&Observer::OnBegin, header);
  TrainToTheEnd(job, start, stop, recorder, resume_command, trainer, observers,
                [&] { trainer.ReportMissed(written, observers); });
}

void TrainAsRankZero(const Job& job,
                     const RankInfo& rank,
                     const Environment& environment,
                     const std::shared_ptr<FlightRecorder>& recorder,
                     const StopRequest& stop,
                     Trainer& trainer) {
  // Announces the run before it builds the model, which may take long. Only a user's own model must
  // be built before its parameters can be counted.
  std::string compute;
  if (job.shape == nullptr) compute = BuildAndTune(job, environment, trainer);
  const int64_t parameters = ParameterCount(job.shape ? *job.shape : trainer.model());
  RunStart start = ChooseRunStart(job.config, environment, ReportTime::Now().unix_seconds);
  RunHeader header = HeaderOf(job, rank, environment, start.folder, trainer, parameters);
  Observers observers;
  Observer& terminal = AddTerminal(job.config.report, environment, start.folder, observers);
  observers.Note(Announcement(job, rank, header, trainer));
  const Log log = OpenLog("", environment, recorder, [&observers](std::string_view line) {
    observers.Note(line.substr(0, line.size() - 1));
  });
  if (const std::string line = stop.JobEndText(); !line.empty()) log.Info(line);
  for (const std::string& note : job.model_notes) log.Info("model: " + note);
  for (const std::string& note : job.data_notes) log.Info("data: " + note);
  const std::string unlike = UnlikePyTorch(job.config);
  if (!unlike.empty() && !start.checkpoint) log.Info(unlike);
  for (const std::string& warning : WarningsOf(job, trainer.plan())) log.Warning(warning);
  const std::string elastic = ElasticWarning(job, environment, trainer.plan());
  if (!elastic.empty()) log.Warning(elastic);
  const std::string resume_command = ResumeCommand(job, environment, header, start.folder);
  const auto begin = [&] {
    if (start.begun) return;
    BeginRun(start, job.config, environment);
    if (start.checkpoint) header.resumed_step = start.checkpoint->step();
    header.parent = start.folder.origin;
    header.changes = start.changes;
    AddFiles(job.config, start, terminal, observers);
    AddFlightNotes(start, environment, rank.local_rank, resume_command, observers);
    AddJob(stop, environment, terminal, observers);
    observers.Notify(&Observer::OnBegin, header);
  };
  // The user has started the run again since an earlier start was asked to stop.
  if (ResumesPath(job.config) && !IsRestart(environment)) RunRequests(start.folder.path).Remove();
  try {
    // A run that resumes changes no file before it has accepted the checkpoint.
    // A run that SLURM starts again does not begin anew before other nodes have looked for it.
    if (start.folder.made && !start.checkpoint && !IsRequeued(environment)) begin();
    TrainToTheEnd(job, start, stop, recorder, resume_command, trainer, observers, [&] {
      if (job.shape != nullptr) compute = BuildAndTune(job, environment, trainer);
      if (!compute.empty()) log.Info(compute);
      for (const std::string& line : trainer.notes().stages) log.Info(line);
      // A checkpoint has all weights.
      if (!trainer.notes().fresh_parameters.empty() && !start.checkpoint) {
        log.Info(FreshText(job, trainer));
      }
      AskNodesForRun(job.config, rank, environment, start, trainer.mesh().control.get());
      const std::vector<std::string> changes = Resume(job, rank, start, trainer);
      begin();
      for (const std::string& note : start.notes) log.Warning(note);
      for (const std::string& change : changes) log.Warning(change);
      if (start.checkpoint) {
        observers.Note("going on after step " + std::to_string(trainer.step()) + ": " +
                       start.checkpoint->path());
      } else if (IsRestart(environment)) {
        observers.Note("no checkpoint yet: training begins again at step 1");
      }
    });
  } catch (...) {
    if (!start.begun) WithdrawRunFolder(start.folder);
    throw;
  }
}

}  // namespace ddprun::trainer
