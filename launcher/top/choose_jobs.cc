#include "launcher/top/choose_jobs.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/run_requests.h"
#include "base/text.h"

namespace ddprun::launcher {

namespace {

// Returns whether both are names of one folder. `folder` is that of a run which goes on.
bool IsFolder(const std::string& name, const std::string& folder) {
  std::error_code error;
  return !folder.empty() && std::filesystem::equivalent(name, folder, error) && !error;
}

Error NoSuchJob(const std::string& name, const TopSample& sample) {
  std::vector<std::string> agents;
  for (const JobSample& job : sample.jobs) agents.push_back(std::to_string(job.agent));
  return {.code = Code::kUsage,
          .title = "NO SUCH JOB",
          .where = name,
          .what =
              "No job of ddprun that you may see runs here under this name. A job is named by "
              "the pid of its\nddprun, the number of its SLURM job, or the folder of its run.",
          .hint = agents.empty() ? "None runs here now."
                                 : "These run here: " + FormatList(agents) + ".",
          .page = "no-such-job"};
}

}  // namespace

Result<TopSample> SampleJobs(const std::string& name) {
  const std::vector<ProcessEntry> processes = ListProcesses();
  TopSample sample;
  for (const LocalJob& job : FindLocalJobs(processes)) {
    if (job.readable) {
      sample.jobs.push_back(ReadJob(job, processes));
    } else {
      sample.unreadable.push_back({job.agent, UserName(job.owner)});
    }
  }
  if (name.empty()) return sample;
  TopSample chosen;
  for (const JobSample& job : sample.jobs) {
    const bool named = name == std::to_string(job.agent) || name == job.slurm_job;
    if (named || IsFolder(name, job.folder)) chosen.jobs.push_back(job);
  }
  if (chosen.jobs.empty()) return NoSuchJob(name, sample);
  return chosen;
}

}  // namespace ddprun::launcher
