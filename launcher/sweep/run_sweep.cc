#include "launcher/sweep/run_sweep.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/whole_file.h"
#include "launcher/sweep/child_run.h"
#include "launcher/sweep/finished_mark.h"
#include "launcher/sweep/sweep_plan.h"
#include "launcher/sweep/sweep_table.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOutputDir = "run.output_dir=";
constexpr std::string_view kNameOverride = "run.name=";

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The trainer does not write into a folder that exists.
std::string NewFolder(const std::string& wanted) {
  std::string path = wanted;
  for (int number = 2; fs::exists(path); ++number) path = wanted + "-" + std::to_string(number);
  return path;
}

Error NotSwept(const std::string& flag, const std::string& what) {
  return Error{.code = Code::kUsage,
               .title = "BAD SWEEP",
               .where = flag,
               .what = what,
               .hint = "",
               .page = "bad-sweep"};
}

class Sweep {
 public:
  Sweep(SweepJob job, std::vector<SweepRun> runs)
      : job_(std::move(job)), runs_(std::move(runs)), config_(ReadText(job_.options.target)) {
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
    int first_failure = 0;
    for (size_t i = 0; i < runs_.size(); ++i) {
      DDPRUN_ASSIGN(const ChildEnd end, RunOne(i));
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
  Result<ChildEnd> RunOne(size_t index) {
    const SweepRun& run = runs_[index];
    RunIdentity identity{
        .config = config_, .overrides = job_.options.overrides, .workers = job_.workers};
    for (const std::string& pair : run.Overrides()) identity.overrides.push_back(pair);
    SweepRow row{.values = run.values, .status = "", .finished = true, .summary = {}, .folder = ""};
    const std::string count =
        "[ddprun] run " + std::to_string(index + 1) + " of " + std::to_string(runs_.size());
    ChildEnd end;
    if (const auto folder = FindFinished(folder_, identity)) {
      row.folder = *folder;
      row.status = "finished before";
      std::fputs((count + ", " + run.name + ": finished before\n").c_str(), stderr);
    } else {
      row.folder = NewFolder(folder_ + "/" + run.name);
      std::fputs((count + ": " + run.name + "\n").c_str(), stderr);
      DDPRUN_ASSIGN(end, RunInChild([&] { return job_.run(OptionsOf(run, row.folder)); }));
      row.finished = end.exit_code == 0 && !end.stop_signal;
      row.status = end.stop_signal ? "stopped"
                   : row.finished  ? "finished"
                                   : "exit code " + std::to_string(end.exit_code);
      if (row.finished) DDPRUN_TRY(MarkFinished(row.folder, identity));
    }
    row.summary = ReadRunSummary(row.folder + "/metrics.jsonl");
    if (!fs::exists(row.folder)) row.folder.clear();
    rows_.push_back(std::move(row));
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
    DDPRUN_TRY(WriteWholeFile(folder_ + "/sweep.csv", CsvTable(rows_)));
    return WriteWholeFile(
        folder_ + "/sweep.html",
        HtmlTable("Sweep of " + fs::path(job_.options.target).filename().string(), rows_));
  }

  void PrintEnd() const {
    const std::string left = rows_.size() < runs_.size()
                                 ? std::to_string(runs_.size() - rows_.size()) + " of " +
                                       std::to_string(runs_.size()) +
                                       " runs were not begun; the same command goes on with them.\n"
                                 : "";
    std::fputs(("\n" + TerminalTable(rows_) + "\n" + left + "Written to " + folder_ +
                "/sweep.csv and sweep.html\n")
                   .c_str(),
               stdout);
  }

  SweepJob job_;
  std::vector<SweepRun> runs_;
  std::string config_;
  std::string folder_;
  std::vector<SweepRow> rows_;
};

}  // namespace

Result<int> RunSweep(SweepJob job) {
  if (job.options.several_nodes()) {
    return NotSwept("--nnodes", "--sweep runs on one node; " +
                                    std::to_string(job.options.max_nodes) + " were asked for.");
  }
  DDPRUN_ASSIGN(std::vector<SweepRun> runs, PlanSweep(job.options.sweep));
  for (const auto& [key, value] : runs.front().values) {
    if (key + "=" == kNameOverride || key + "=" == kOutputDir) {
      return NotSwept("--sweep=" + key, "Each run of a sweep gets a name and a folder of its own.");
    }
  }
  return Sweep(std::move(job), std::move(runs)).Run();
}

}  // namespace ddprun::launcher
