#include "launcher/requests/job_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "base/read_file.h"
#include "base/run_requests.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/process/program_output.h"
#include "launcher/submit/submitted_job.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

Error NoSuchRun(const std::string& job, std::string what, std::string hint) {
  return {.code = Code::kUsage,
          .title = "NO SUCH RUN",
          .where = job,
          .what = std::move(what),
          .hint = std::move(hint),
          .page = "no-such-run"};
}

// Returns whether no process locks the run. On a file system without locks, one may run all the
// same: then nothing can be locked, and this returns false.
bool IsIdle(const std::string& folder) {
  const UniqueFd file(::open((folder + "/" + kRunLock).c_str(), O_RDONLY | O_CLOEXEC));
  return file.valid() && ::flock(file.get(), LOCK_SH | LOCK_NB) == 0;
}

// Returns whether a run of this job made the folder: run.lock has "slurm CLUSTER ID CONFIG".
bool BelongsTo(const std::string& folder, const std::string& id) {
  const auto text = ReadIfReadable(folder + "/" + kRunLock);
  if (!text) return false;
  for (const std::string& line : SplitLines(*text)) {
    const std::vector<std::string_view> words = SplitAt(line, ' ');
    if (words.size() > 2 && words[0] == "slurm" && words[2] == id) return true;
  }
  return false;
}

// Returns the folders in `where`, or in a folder of it (a sweep's), that belong to the job.
std::vector<std::string> FoldersOfJob(const std::string& where, const std::string& id) {
  std::vector<std::string> found;
  std::error_code error;
  fs::recursive_directory_iterator entry(where, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (entry.depth() > 0) entry.disable_recursion_pending();
    if (BelongsTo(entry->path().string(), id)) found.push_back(entry->path().string());
  }
  return found;
}

// Reads lines of squeue with a job's name, its number and its folder, and returns each number with
// its folder once. An element of an array has a number of its own, which its run knows; of a
// heterogeneous job, which has a line for each group ("18+0"), the run knows the number in the
// name.
std::vector<std::string> NumbersAndFolders(const std::string& text) {
  std::vector<std::string> found;
  for (const std::string& line : SplitLines(text)) {
    const size_t name_end = std::min(line.find(' '), line.size());
    const size_t number_end = line.find(' ', name_end + 1);
    if (number_end == line.npos) continue;
    const size_t plus = line.find('+');
    std::string entry = plus < name_end ? line.substr(0, plus) + line.substr(number_end)
                                        : line.substr(name_end + 1);
    if (std::ranges::find(found, entry) == found.end()) found.push_back(std::move(entry));
  }
  return found;
}

// Returns the run folder of a SLURM job.
Result<std::string> FolderOfSlurmJob(const std::string& job, const Environment& env) {
  DDPRUN_ASSIGN(const std::string squeue, FindSlurmProgram("squeue", env));
  const auto output =
      RunForOutput({squeue, "-h", "-j", job, "-t", "RUNNING", "-o", "%i %A %Z"}, env,
                   /*with_stderr=*/false, std::chrono::minutes(1));
  const std::vector<std::string> lines =
      NumbersAndFolders(output && output->status == 0 ? output->text : "");
  if (lines.empty()) {
    return NoSuchRun(job, "SLURM has no running job " + job + ".",
                     "See squeue --me. scancel ends a job that waits. A run without SLURM is named "
                     "by its folder:\nruns/NAME.");
  }
  if (lines.size() > 1) {
    return NoSuchRun(job,
                     CountText(static_cast<int64_t>(lines.size()), "job") + " run as " + job + ".",
                     "Name one element of the array, such as " + job + "_0.");
  }
  const size_t blank = std::min(lines[0].find(' '), lines[0].size());
  const std::string where = lines[0].substr(std::min(blank + 1, lines[0].size())) + "/runs";
  const std::vector<std::string> folders = FoldersOfJob(where, lines[0].substr(0, blank));
  if (folders.size() == 1) return folders.front();
  if (!folders.empty()) {
    return NoSuchRun(job, "Several runs belong to the job: " + FormatList(folders) + ".",
                     "Name one of these folders.");
  }
  return NoSuchRun(job, "The job has no run of ddp-trainer in " + where + ".",
                   "If its config has another run.output_dir, name the run's folder, which its log "
                   "has. A program of\nanother kind may save at a signal: scancel -s USR1 " +
                       job + ". A program that does not is ended by it.");
}

}  // namespace

Result<std::string> FolderOfJob(const std::string& job, const Environment& env) {
  std::error_code ignored;
  if (fs::exists(job + "/" + kRunLock, ignored)) {
    if (!IsIdle(job)) return job;
    return NoSuchRun(job, "Nothing trains in " + job + " now.",
                     "If it runs on another machine, whose locks are not seen here, name its SLURM "
                     "job, or put the\nfile there: touch " +
                         job + "/save, or " + job + "/stop.");
  }
  const bool number = !job.empty() && job.find_first_not_of("0123456789_+") == job.npos;
  if (number && !fs::exists(job, ignored)) return FolderOfSlurmJob(job, env);
  return NoSuchRun(job, job + " is neither the folder of a run nor the number of a SLURM job.",
                   "A run's folder has run.lock in it: runs/NAME.");
}

}  // namespace ddprun::launcher
