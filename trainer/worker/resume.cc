#include "trainer/worker/resume.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <random>
#include <thread>
#include <utility>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/config/config_text.h"
#include "trainer/job/run_text.h"
#include "trainer/loop/checkpointing.h"
#include "trainer/parallel/whole_state.h"
#include "trainer/report/checkpoint_owner.h"
#include "trainer/report/metrics_file.h"
#include "trainer/report/state_hashes.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

std::string RandomWord() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device random;
  std::string word;
  for (int i = 0; i < 16; ++i) word += kDigits[random() % kDigits.size()];
  return word;
}

bool IsAbove0(const Environment& environment, const char* variable) {
  return ValueOrThrow(environment.GetInt(variable, 0, 0, 1 << 30)) > 0;
}

struct JobNames {
  std::vector<std::string> all;        // marks of this run's folder
  std::vector<std::string> restarted;  // names under which the job may already have a folder
};

// Returns the begin of a SLURM job's name; the hash of the config follows.
std::string SlurmMark(const Environment& environment) {
  return "slurm " + environment.GetOr("SLURM_CLUSTER_NAME", "") + " " +
         environment.GetOr("SLURM_JOB_ID", "") + " ";
}

// One allocation may train several configs.
std::string SlurmName(const Config& config, const Environment& environment) {
  return SlurmMark(environment) + ConfigHash(WriteResolvedConfig(config));
}

// Returns the job's names. Each launcher that can restart a job has its own name for it.
JobNames NamesOfJob(const Config& config, const Environment& environment) {
  JobNames names;
  const auto add = [&](const std::string& name, bool restarted) {
    names.all.push_back(name);
    if (restarted) names.restarted.push_back(name);
  };
  if (const auto id = environment.Get("DDPRUN_JOB_ID")) {
    add("ddprun " + *id, IsRestart(environment));
  }
  const std::string elastic = environment.GetOr("TORCHELASTIC_RUN_ID", "none");
  if (elastic != "none") add("elastic " + elastic, IsRestart(environment));
  if (environment.Get("SLURM_JOB_ID")) {
    add(SlurmName(config, environment), IsAbove0(environment, "SLURM_RESTART_COUNT"));
  }
  return names;
}

// Returns the config with the name of the run under SLURM. Elements of an array are runs of their
// own; a run without a name has that of the job.
Config NamedAfterJob(Config config, const Environment& environment) {
  const auto job = environment.Get("SLURM_JOB_ID");
  if (!job || ResumesPath(config)) return config;
  const auto array = environment.Get("SLURM_ARRAY_JOB_ID");
  const auto task = environment.Get("SLURM_ARRAY_TASK_ID");
  std::string& name = config.run.name;
  if (name.empty()) {
    for (const char c : environment.GetOr("SLURM_JOB_NAME", "slurm")) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
      name += plain && !(name.empty() && c == '.') ? c : '_';
    }
    name += "-" + (array && task ? *array : *job);
  }
  if (array && task) name += "_" + *task;
  return config;
}

Failure NoCheckpoint(const std::string& path, std::string what) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "NO CHECKPOINT",
                       .where = path,
                       .what = std::move(what),
                       .hint = "Name a run folder with checkpoints, or one of its checkpoints "
                               "(step-N), with run.resume.",
                       .page = "no-checkpoint"});
}

// Sets start.checkpoint to the newest before step `before`, or to the one the run began from.
void TakeNewest(int64_t before, RunStart& start) {
  NewestCheckpoint newest =
      ValueOrThrow(OpenNewest(start.folder.checkpoints, Verify::kSizes, before));
  for (const Error& error : newest.skipped) {
    start.notes.push_back("passing over " + error.where + ": " + error.what);
  }
  start.checkpoint = std::move(newest.checkpoint);
  if (!start.checkpoint && !start.folder.origin.empty()) {
    start.checkpoint = ValueOrThrow(Checkpoint::Open(start.folder.origin, Verify::kSizes));
  }
  if (!start.checkpoint && !start.wanted.empty()) {
    std::string what = "This run has no checkpoint from which it could resume.";
    for (const std::string& note : start.notes) what += "\n" + note;
    throw NoCheckpoint(start.wanted, std::move(what));
  }
}

class Chooser {
 public:
  Chooser(const Config& config, const Environment& environment)
      : config_(NamedAfterJob(config, environment)), jobs_(NamesOfJob(config, environment)) {}

  RunStart Choose() const {
    if (config_.run.resume == "never") return {};
    const std::string own = ValueOrThrow(FindRunFolder(config_, jobs_.restarted));
    if (!own.empty()) return ContinueRun(own);
    if (ResumesPath(config_)) return FromPath(config_.run.resume);
    const std::string named = config_.run.resume == "auto" ? NewestOfName() : "";
    return named.empty() ? RunStart() : ContinueRun(named);
  }

 private:
  // Returns the run of this name that has saved last, because other runs may have been killed
  // before their first save. "" means that none has saved.
  std::string NewestOfName() const {
    std::string newest;
    fs::file_time_type newest_time = fs::file_time_type::min();
    for (const std::string& run : ValueOrThrow(RunFoldersOfName(config_))) {
      const std::string folder = CheckpointFolderOf(run, config_.checkpoint.dir);
      for (const StoredCheckpoint& stored : ValueOrThrow(ListCheckpoints(folder))) {
        std::error_code error;
        const fs::file_time_type time = fs::last_write_time(stored.path, error);
        if (error || time < newest_time) continue;
        newest_time = time;
        newest = run;
      }
    }
    return newest;
  }

  RunStart ContinueRun(const std::string& path, const std::string& wanted = "") const {
    RunStart start{.folder = ValueOrThrow(OpenRunFolder(path, config_)), .wanted = wanted};
    TakeNewest(INT64_MAX, start);
    return start;
  }

  // Continues a run folder. From a checkpoint a new run begins, so that nothing that came after the
  // checkpoint is lost.
  RunStart FromPath(const std::string& path) const {
    if (!fs::exists(path)) throw NoCheckpoint(path, "There is no such folder.");
    if (fs::exists(path + "/" + kResolvedConfig)) return ContinueRun(path, path);
    return {.checkpoint = ValueOrThrow(Checkpoint::Open(path, Verify::kSizes)), .wanted = path};
  }

  const Config config_;
  const JobNames jobs_;
};

// Returns the folder of the run that saved a checkpoint.
std::string RunOf(const Checkpoint& checkpoint) {
  const fs::path folder = fs::absolute(checkpoint.path() + "/").parent_path().parent_path();
  const Result<std::optional<CheckpointOwner>> owner = OwnerOf(folder.string());
  return owner && *owner ? (*owner)->run_folder : folder.parent_path().string();
}

}  // namespace

bool IsRestart(const Environment& environment) {
  return IsAbove0(environment, "TORCHELASTIC_RESTART_COUNT") ||
         IsAbove0(environment, "DDPRUN_ROUND");
}

RunStart FindRunStart(const Config& config, const Environment& environment) {
  return Chooser(config, environment).Choose();
}

std::vector<std::string> FoldersOfOtherConfigs(const Config& config,
                                               const Environment& environment) {
  const std::string mark = SlurmMark(environment);
  const std::string own = SlurmName(config, environment);
  std::vector<std::string> folders;
  for (const std::string& run :
       ValueOrThrow(RunFoldersOfName(NamedAfterJob(config, environment)))) {
    const auto jobs = JobsOfRunFolder(run);
    if (!jobs) continue;
    const bool of_job =
        std::ranges::any_of(*jobs, [&](const std::string& job) { return job.starts_with(mark); });
    if (of_job && std::ranges::find(*jobs, own) == jobs->end()) folders.push_back(run);
  }
  return folders;
}

RunStart ChooseRunStart(const Config& config, const Environment& environment, double unix_seconds) {
  RunStart start = FindRunStart(config, environment);
  if (start.folder.path.empty()) {
    const std::string origin = start.checkpoint ? start.checkpoint->path() : "";
    const Config named = NamedAfterJob(config, environment);
    start.folder = ValueOrThrow(MakeRunFolder(named, unix_seconds, origin));
  }
  start.place = {
      .run = start.folder.path, .folder = start.folder.checkpoints, .attempt = RandomWord()};
  start.unix_seconds = unix_seconds;
  return start;
}

void PassOver(const Error& damage, RunStart& start) {
  const Checkpoint& damaged = *start.checkpoint;
  const bool own = damaged.path() != start.folder.origin && !start.folder.made;
  if (!own) throw Failure(damage);  // there is no earlier checkpoint
  start.notes.push_back("passing over " + damage.where + ": " + damage.what);
  TakeNewest(damaged.step(), start);
}

void BeginRun(RunStart& start, const Config& config, const Environment& environment) {
  const int64_t step = start.checkpoint ? start.checkpoint->step() : 0;
  const std::string metrics = start.folder.path + "/metrics.jsonl";
  start.begun = true;
  ThrowIfError(KeepRunFolder(start.folder, config, NamesOfJob(config, environment).all));
  if (!start.folder.made) {
    const double last = LastWriteTime(metrics);
    if (last > 0 && !IsRestart(environment)) start.idle_seconds = start.unix_seconds - last;
    ThrowIfError(PrepareCheckpointFolder(start.place.folder, step));
  } else if (start.checkpoint) {
    const std::string before = RunOf(*start.checkpoint) + "/metrics.jsonl";
    std::error_code error;
    if (fs::exists(before, error)) fs::copy_file(before, metrics, error);
    if (error) throw Failure(CannotWrite(metrics, error.value()));
    if (const double last = LastWriteTime(before); last > 0) {
      start.idle_seconds = start.unix_seconds - last;
    }
  }
  const bool evaluation_due = start.checkpoint && OwesEvaluation(start.checkpoint->run());
  ThrowIfError(CutMetrics(metrics, step, evaluation_due));
  ThrowIfError(CutMetrics(start.folder.path + "/" + kStateHashesName, step));
}

RunFolder TakeOverRun(const std::string& path,
                      const Config& config,
                      const Environment& environment) {
  RunFolder folder = ValueOrThrow(OpenRunFolder(path, config));
  ThrowIfError(KeepRunFolder(folder, config, NamesOfJob(config, environment).all));
  return folder;
}

SharedStart ShareStart(c10d::Backend* control, const SharedStart& own) {
  const auto shared = [&](const std::string& text) { return ExchangeTexts(control, text)[0]; };
  SharedStart start;
  start.place = {.run = shared(own.place.run),
                 .folder = shared(own.place.folder),
                 .attempt = shared(own.place.attempt)};
  start.saved.path = shared(own.saved.path);
  start.saved.run = shared(own.saved.run);
  start.saved.model_only = !shared(own.saved.model_only ? "1" : "").empty();
  start.place.of_another_run = !shared(own.place.of_another_run ? "1" : "").empty();
  return start;
}

FolderView LookAtFolder(const CheckpointPlace& place, c10d::Backend* control) {
  const std::string token = place.folder + "/seen-" + place.attempt;
  std::error_code error;
  const auto see = [&] { return fs::exists(token, error); };
  if (control->getRank() == 0) {
    fs::create_directories(place.folder, error);
    (void)WriteFileAtomically(token, "", Durability::kUnsynced);
  }
  ExchangeTexts(control, "");  // rank 0 has written the file, or never will
  // File systems between hosts may show the file late.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!see() && control->getRank() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::vector<std::string> seen = ExchangeTexts(control, see() ? "1" : "");
  if (control->getRank() == 0) fs::remove(token, error);
  if (seen[0].empty()) seen.assign(seen.size(), "1");
  const auto count = [&](auto end) { return std::count(seen.begin(), end, "1"); };
  const auto own = seen.begin() + control->getRank();
  FolderView view{.by_all = count(seen.end()) == std::ssize(seen), .part = std::nullopt};
  if (!own->empty()) view.part = RankPart{.rank = count(own), .size = count(seen.end())};
  return view;
}

}  // namespace ddprun::trainer
