#include "launcher/sweep/run_sweep.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "launcher/sweep/sweep_plan.h"
#include "launcher/sweep/sweep_run.h"
#include "launcher/sweep/sweep_table.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOutputDir = "run.output_dir=";
constexpr std::string_view kNameOverride = "run.name=";
constexpr std::string_view kLastColumns = "seconds,status,folder";

// `tables` is a path without suffix. Returns whether there are no such tables, or a sweep's tables.
// A file that cannot be read is not a sweep's.
bool IsOurs(const std::string& tables) {
  const auto csv = ReadFile(tables + ".csv");
  const auto html = ReadFile(tables + ".html");
  if (!csv.has_value() || !html.has_value()) return false;
  return (!*csv || csv->value().substr(0, csv->value().find("\r\n")).ends_with(kLastColumns)) &&
         (!*html || html->value().find("<title>Sweep of ") != std::string::npos);
}

// Returns a free name, because the trainer does not write into a folder that exists.
std::string NewFolder(const std::string& wanted) {
  std::string path = wanted;
  for (int number = 2; fs::exists(path); ++number) path = wanted + "-" + std::to_string(number);
  return path;
}

Error NotSwept(const std::string& flag, const std::string& what) {
  return Error{
      .code = Code::kUsage, .title = "BAD SWEEP", .where = flag, .what = what, .page = "bad-sweep"};
}

class Sweep {
 public:
  Sweep(SweepJob job, std::vector<SweepRun> runs)
      : job_(std::move(job)),
        runs_(std::move(runs)),
        config_(ReadIfReadable(job_.options.target).value_or("")) {
    folder_ = "sweeps/" + fs::path(job_.options.target).stem().string();
    std::vector<std::string> kept;
    for (const std::string& pair : job_.options.overrides) {
      if (pair.starts_with(kOutputDir)) {
        folder_ = pair.substr(kOutputDir.size());
      } else {
        kept.push_back(pair);
      }
    }
    job_.options.overrides = std::move(kept);
  }

  Result<int> Run() {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) return SystemError("making the folder " + folder_, error.value());
    for (const SweepRun& run : runs_) rows_.push_back(RowBefore(run));
    ChooseTables();
    int first_failure = 0;
    for (begun_ = 0; begun_ < runs_.size();) {
      DDPRUN_ASSIGN(const ChildEnd end, RunOne(begun_++));
      DDPRUN_TRY(WriteTables());
      if (end.stop_signal) {
        first_failure = 128 + *end.stop_signal;
        break;
      }
      if (first_failure == 0) first_failure = end.exit_code;
    }
    PrintEnd();
    return first_failure;
  }

 private:
  RunIdentity IdentityOf(const SweepRun& run) const {
    RunIdentity identity{
        .config = config_, .overrides = job_.options.overrides, .workers = job_.workers};
    for (const std::string& pair : run.Overrides()) identity.overrides.push_back(pair);
    return identity;
  }

  // Returns the row of a run before the sweep begins.
  SweepRow RowBefore(const SweepRun& run) const {
    SweepRow row{.values = run.values,
                 .status = "not begun",
                 .finished = false,
                 .summary = {},
                 .folder = ""};
    if (const auto folder = FindFinished(folder_, IdentityOf(run))) {
      row.folder = *folder;
      row.status = "finished before";
      row.finished = true;
      row.summary = ReadRunSummary(row.folder + "/metrics.jsonl");
    }
    return row;
  }

  // Chooses sweep.csv and sweep.html, or sweep-2, ... : the first that are not another program's
  // and have no results of runs that this sweep does not have.
  void ChooseTables() {
    const auto own = [this](const std::string& folder) {
      return std::any_of(rows_.begin(), rows_.end(),
                         [&](const SweepRow& row) { return row.folder == folder; });
    };
    std::vector<std::string> others;
    for (const std::string& folder : FinishedFolders(folder_)) {
      if (!own(folder)) others.push_back(CsvCell(folder) + "\r\n");
    }
    const std::string first = folder_ + "/sweep";
    tables_ = first;
    for (int number = 2;; ++number) {
      const std::string text = ReadIfReadable(tables_ + ".csv").value_or("");
      const auto in_table = [&](const std::string& end) {
        return text.find("," + end) != std::string::npos;
      };
      if (IsOurs(tables_) && std::none_of(others.begin(), others.end(), in_table)) return;
      tables_ = first + "-" + std::to_string(number);
    }
  }

  Result<ChildEnd> RunOne(size_t index) {
    const SweepRun& run = runs_[index];
    SweepRow& row = rows_[index];
    const std::string count =
        "[ddprun] run " + std::to_string(index + 1) + " of " + std::to_string(runs_.size());
    ChildEnd end;
    if (row.finished) {
      std::fputs((count + ", " + run.name + ": finished before\n").c_str(), stderr);
    } else {
      row.folder = NewFolder(folder_ + "/" + run.name);
      std::fputs((count + ": " + run.name + "\n").c_str(), stderr);
      DDPRUN_ASSIGN(end, RunInChild([&] { return job_.run(OptionsOf(run, row.folder)); }));
      row.summary = ReadRunSummary(row.folder + "/metrics.jsonl");
      row.finished = end.exit_code == 0 && !end.stop_signal && !row.summary.stopped;
      row.status = end.stop_signal || row.summary.stopped ? "stopped"
                   : row.finished                         ? "finished"
                                  : "exit code " + std::to_string(end.exit_code);
      if (row.finished) DDPRUN_TRY(MarkFinished(row.folder, IdentityOf(run)));
      if (!fs::exists(row.folder)) row.folder.clear();
    }
    return end;
  }

  Options OptionsOf(const SweepRun& run, const std::string& folder) const {
    Options options = job_.options;
    options.sweep.clear();
    for (const std::string& pair : run.Overrides()) options.overrides.push_back(pair);
    options.overrides.push_back(std::string(kNameOverride) + run.name);
    options.overrides.push_back(std::string(kOutputDir) + folder);
    return options;
  }

  Status WriteTables() const {
    DDPRUN_TRY(WriteFileAtomically(tables_ + ".csv", CsvTable(rows_)));
    return WriteFileAtomically(
        tables_ + ".html",
        HtmlTable("Sweep of " + fs::path(job_.options.target).filename().string(), rows_));
  }

  void PrintEnd() const {
    const std::string left = begun_ < runs_.size()
                                 ? std::to_string(runs_.size() - begun_) + " of " +
                                       std::to_string(runs_.size()) +
                                       " runs were not begun; the same command goes on with them.\n"
                                 : "";
    std::fputs(("\n" + TerminalTable(rows_) + "\n" + left + "Written to " + tables_ + ".csv and " +
                fs::path(tables_).filename().string() + ".html\n")
                   .c_str(),
               stdout);
  }

  SweepJob job_;
  std::vector<SweepRun> runs_;
  std::string config_;
  std::string folder_;
  std::string tables_;          // path of the tables without suffix
  std::vector<SweepRow> rows_;  // of all runs
  size_t begun_ = 0;
};

}  // namespace

Result<int> RunSweep(SweepJob job) {
  if (job.options.several_nodes()) {
    return NotSwept("--nnodes", "--sweep runs on one node; " +
                                    std::to_string(job.options.rdzv.rules.max_nodes) +
                                    " were asked for.");
  }
  DDPRUN_ASSIGN(std::vector<SweepRun> runs,
                PlanSweep(job.options.sweep, SweepChoiceOf(job.options)));
  for (const auto& [key, value] : runs.front().values) {
    if (key + "=" == kNameOverride || key + "=" == kOutputDir) {
      return NotSwept("--sweep=" + key, "Each run of a sweep gets a name and a folder of its own.");
    }
  }
  DDPRUN_ASSIGN(const int refused, job.check(runs));
  if (refused != 0) return refused;
  return Sweep(std::move(job), std::move(runs)).Run();
}

}  // namespace ddprun::launcher
