#include "launcher/top/local_jobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/env.h"
#include "base/read_file.h"
#include "base/sealed_memory.h"
#include "base/text.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

std::string ProcPath(pid_t pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

std::string LinkTarget(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return error ? "" : target.string();
}

std::string NameOfProcess(pid_t pid) {
  const std::string text = ReadIfReadable(ProcPath(pid, "comm")).value_or("");
  return text.substr(0, text.find('\n'));
}

// An agent is the parent of a guard, which runs the same program. If the agent was killed, the
// guard has another parent.
bool IsAgent(const ProcessEntry& guard) {
  const std::string program = LinkTarget(ProcPath(guard.pid, "exe"));
  if (program.empty()) return NameOfProcess(guard.parent) == "ddprun";
  return LinkTarget(ProcPath(guard.parent, "exe")) == program;
}

// Returns whether the process itself opened the descriptor: one that it inherited, as from a job
// around this job, stays open when it starts another program.
bool IsCloseOnExec(pid_t pid, const std::string& number) {
  const std::string text = ReadIfReadable(ProcPath(pid, "fdinfo/" + number)).value_or("");
  const size_t place = text.find("flags:");
  if (place == std::string::npos) return false;
  return (std::strtoul(text.c_str() + place + 6, nullptr, 8) & O_CLOEXEC) != 0;
}

void OpenRecorder(LocalJob& job) {
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(ProcPath(job.agent, "fd"), error)) {
    const std::string number = entry.path().filename().string();
    if (!LinkTarget(entry.path().string()).starts_with("/memfd:ddprun-flight-recorder")) continue;
    if (!IsCloseOnExec(job.agent, number)) continue;
    // The seals say that no process can make it shorter while this one reads it.
    UniqueFd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!HasSeals(file, kFlightRecorderSeals)) continue;
    job.recorder = std::move(file);
    job.recorder_number = static_cast<int>(ParseInt(number).value_or(-1));
  }
}

std::string CommandOf(pid_t pid) {
  std::string text = ReadIfReadable(ProcPath(pid, "cmdline")).value_or("");
  if (!text.empty() && text.back() == '\0') text.pop_back();
  // The program without its folder, because it is the same for all jobs.
  const size_t end = std::min(text.find('\0'), text.size());
  const size_t slash = text.substr(0, end).rfind('/');
  if (slash != std::string::npos) text.erase(0, slash + 1);
  std::ranges::replace_if(
      text, [](char c) { return c == '\0' || c == '\n' || c == '\t'; }, ' ');
  return MakePrintable(text);
}

}  // namespace

std::string VariableOf(pid_t pid, std::string_view name) {
  const auto text = ReadIfReadable(ProcPath(pid, "environ"));
  if (!text) return "";
  for (const std::string_view entry : SplitAt(*text, '\0')) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return std::string(entry.substr(name.size() + 1));
    }
  }
  return "";
}

std::string UserName(uid_t user) {
  const passwd* const entry = ::getpwuid(user);
  return entry != nullptr ? entry->pw_name : std::to_string(user);
}

std::vector<LocalJob> FindLocalJobs(std::span<const ProcessEntry> processes) {
  std::vector<LocalJob> jobs;
  for (const ProcessEntry& guard : processes) {
    if (guard.session != guard.pid || guard.ended) continue;
    if (NameOfProcess(guard.pid) != "ddprun-guard" || !IsAgent(guard)) continue;
    struct stat info {};
    if (::stat(ProcPath(guard.parent, "").c_str(), &info) != 0) continue;
    LocalJob job{.agent = guard.parent, .owner = info.st_uid};
    const std::unique_ptr<DIR, int (*)(DIR*)> descriptors(
        ::opendir(ProcPath(job.agent, "fd").c_str()), ::closedir);
    job.readable = descriptors != nullptr;
    if (job.readable) {
      job.command = CommandOf(job.agent);
      job.slurm_job = VariableOf(job.agent, "SLURM_JOB_ID");
      OpenRecorder(job);
    }
    jobs.push_back(std::move(job));
  }
  std::ranges::sort(jobs, {}, &LocalJob::agent);
  return jobs;
}

}  // namespace ddprun::launcher
