#include "launcher/sweep/run_sweep.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

#include "base/atomic_file.h"
#include "base/line_chart.h"
#include "base/read_file.h"
#include "base/terminal.h"
#include "base/unique_fd.h"
#include "launcher/sweep/child_runs.h"
#include "launcher/sweep/machine_share.h"
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

Error NotSwept(const std::string& flag, const std::string& what) {
  return Error{
      .code = Code::kUsage, .title = "BAD SWEEP", .where = flag, .what = what, .page = "bad-sweep"};
}

class Sweep {
 public:
  // As many runs are under way at once as there are shares.
  Sweep(SweepJob job, std::vector<SweepRun> runs, std::vector<MachineShare> shares)
      : job_(std::move(job)),
        runs_(std::move(runs)),
        shares_(std::move(shares)),
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
    for (size_t i = shares_.size(); i > 0; --i) free_shares_.push_back(i - 1);
  }

  Result<int> Run() {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) return SystemError("making the folder " + folder_, error.value());
    for (const SweepRun& run : runs_) rows_.push_back(RowBefore(run));
    ChooseTables();
    int first_failure = 0;
    ChildRuns children;
    while (true) {
      while (begun_ < runs_.size() && !free_shares_.empty() && !children.stop_signal()) {
        DDPRUN_TRY(Begin(begun_++, children));
      }
      if (children.running() == 0) break;
      const auto [index, end] = children.Wait();
      DDPRUN_TRY(Finish(index, end));
      DDPRUN_TRY(WriteTables());
      if (first_failure == 0) first_failure = end.exit_code;
    }
    DDPRUN_TRY(WriteTables());
    PrintEnd();
    return children.stop_signal() ? 128 + *children.stop_signal() : first_failure;
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

  // Returns a free name, because the trainer does not write into a folder that exists.
  std::string NewFolder(const std::string& wanted) const {
    std::string path = wanted;
    const auto taken = [&] {
      return fs::exists(path) || std::ranges::count(rows_, path, &SweepRow::folder) > 0;
    };
    for (int number = 2; taken(); ++number) path = wanted + "-" + std::to_string(number);
    return path;
  }

  bool at_once() const { return shares_.size() > 1; }
  std::string CountOf(size_t index) const {
    return "[ddprun] run " + std::to_string(index + 1) + " of " + std::to_string(runs_.size());
  }

  Status Begin(size_t index, ChildRuns& children) {
    const SweepRun& run = runs_[index];
    SweepRow& row = rows_[index];
    if (row.finished) {
      std::fputs((CountOf(index) + ", " + run.name + ": finished before\n").c_str(), stderr);
      return {};
    }
    row.folder = NewFolder(folder_ + "/" + run.name);
    share_of_[index] = free_shares_.back();
    free_shares_.pop_back();
    const std::string log = at_once() ? ", its output: " + row.folder + ".log" : "";
    std::fputs((CountOf(index) + ": " + run.name + log + "\n").c_str(), stderr);
    return children.Start(index, [&] { return ExitCodeOf(RunHere(index), job_.env); });
  }

  // In a child process.
  Result<int> RunHere(size_t index) {
    const std::string& folder = rows_[index].folder;
    if (at_once()) DDPRUN_TRY(MoveTo(shares_[share_of_[index]], folder + ".log"));
    return job_.run(OptionsOf(runs_[index], folder), job_.env);
  }

  // Takes a share of the machine, and writes what it prints to a file.
  Status MoveTo(const MachineShare& share, const std::string& log) {
    const UniqueFd file(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!file.valid()) return SystemError("opening " + log, errno);
    const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(file.get(), STDOUT_FILENO);
    ::dup2(file.get(), STDERR_FILENO);
    if (share.gpus) job_.env.Set("CUDA_VISIBLE_DEVICES", *share.gpus);
    return StayOnCpus(share.cpus);
  }

  Status Finish(size_t index, const ChildEnd& end) {
    SweepRow& row = rows_[index];
    row.summary = ReadRunSummary(row.folder + "/metrics.jsonl");
    row.finished = end.exit_code == 0 && !end.stop_signal && !row.summary.stopped;
    row.status = end.stop_signal || row.summary.stopped ? "stopped"
                 : row.finished                         ? "finished"
                                : "exit code " + std::to_string(end.exit_code);
    if (at_once()) {
      const std::string more = !row.finished
                                   ? ", see " + row.folder + ".log"
                                   : ", loss " + FiveDigits(row.summary.loss.value_or(NAN));
      std::fputs((CountOf(index) + ": " + row.status + more + "\n").c_str(), stderr);
    }
    free_shares_.push_back(share_of_.extract(index).mapped());
    if (row.finished) DDPRUN_TRY(MarkFinished(row.folder, IdentityOf(runs_[index])));
    if (!fs::exists(row.folder)) row.folder.clear();
    return {};
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
  std::vector<MachineShare> shares_;
  std::vector<size_t> free_shares_;
  std::map<size_t, size_t> share_of_;  // by run that is under way
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
  DDPRUN_ASSIGN(std::vector<MachineShare> shares,
                DivideMachine(job.options.sweep_jobs, job.workers, AllowedCpus(),
                              job.options.sweep_jobs > 1 ? FindDevices(job.env) : Devices()));
  DDPRUN_ASSIGN(const int refused, job.check(runs));
  if (refused != 0) return refused;
  return Sweep(std::move(job), std::move(runs), std::move(shares)).Run();
}

}  // namespace ddprun::launcher
