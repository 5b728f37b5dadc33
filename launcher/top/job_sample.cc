#include "launcher/top/job_sample.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "base/read_file.h"
#include "base/run_requests.h"
#include "base/text.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// A shorter wait is a part of any step.
constexpr std::chrono::seconds kLongWait{1};

// A child of the agent that leads a session, as each worker does.
struct Candidate {
  ProcessEntry process;
  pid_t inner_pid = 0;  // in its own namespace of processes: as the worker itself sees it
  int64_t memory = 0;
  std::string own_page = {};  // of the flight recorder; "" if it was forked by a template
};

// Returns the number after `name` in /proc/PID/status: the last one of its line.
int64_t StatusNumber(const std::string& status, const std::string& name) {
  const size_t begin = status.find("\n" + name + ":");
  if (begin == std::string::npos) return 0;
  std::string line = status.substr(begin + 1, status.find('\n', begin + 1) - begin - 1);
  if (line.ends_with(" kB")) line.resize(line.size() - 3);
  return std::strtoll(line.c_str() + line.find_last_of(" \t:") + 1, nullptr, 10);
}

std::vector<Candidate> CandidatesOf(const LocalJob& job, std::span<const ProcessEntry> processes) {
  const std::string recorder = std::to_string(job.recorder_number);
  std::vector<Candidate> found;
  for (const ProcessEntry& process : processes) {
    if (process.parent != job.agent || process.session != process.pid || process.ended) continue;
    const auto status = ReadIfReadable("/proc/" + std::to_string(process.pid) + "/status");
    if (!status) continue;
    Candidate candidate{.process = process,
                        .inner_pid = static_cast<pid_t>(StatusNumber(*status, "NSpid")),
                        .memory = StatusNumber(*status, "VmRSS") * 1024};
    // A worker of this attempt: a job within a job inherits the variables of the outer one.
    if (VariableOf(process.pid, kFlightRecorderVariable) == recorder) {
      candidate.own_page = VariableOf(process.pid, kFlightPageVariable);
      if (candidate.own_page.empty()) candidate.own_page = VariableOf(process.pid, "LOCAL_RANK");
    }
    found.push_back(std::move(candidate));
  }
  std::ranges::sort(found, {}, [](const Candidate& c) { return c.process.start_time; });
  return found;
}

int64_t IntegerOf(pid_t pid, std::string_view name) {
  return ParseInt(VariableOf(pid, name)).value_or(0);
}

// Returns the folder of the run whose lock the process has open.
std::string RunFolderOf(pid_t pid) {
  const std::string lock = std::string("/") + kRunLock;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
    std::error_code ignored;
    const std::string target = fs::read_symlink(entry.path(), ignored).string();
    if (target.ends_with(lock)) return target.substr(0, target.size() - lock.size());
  }
  return "";
}

milliseconds LifetimeOf(const ProcessEntry& process) {
  static const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const milliseconds up(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
  const auto ticks = static_cast<int64_t>(process.start_time);
  return std::max(up - milliseconds(ticks * 1000 / ticks_per_second), milliseconds(0));
}

RankSample ReadRank(int page,
                    std::span<const Candidate> candidates,
                    std::optional<FlightSnapshot> flight) {
  RankSample sample{.worker = {.rank = -1, .local_rank = page}};
  for (const Candidate& candidate : candidates) {
    const bool named = candidate.own_page == std::to_string(page);
    const bool attached = flight && flight->pid == candidate.inner_pid;
    if (!named && !attached) continue;
    const pid_t pid = candidate.process.pid;
    sample.worker.pid = pid;
    sample.worker.place = ReadProcessPlace(pid);
    sample.memory = candidate.memory;
    sample.lifetime = LifetimeOf(candidate.process);
    if (named) sample.worker.rank = static_cast<int>(IntegerOf(pid, "RANK"));
    break;
  }
  if (flight) sample.worker.rank = flight->rank;
  sample.worker.flight = std::move(flight);
  return sample;
}

double ShareOf(milliseconds cpu_time, milliseconds time) {
  return static_cast<double>(std::max<int64_t>(cpu_time.count(), 0)) /
         static_cast<double>(std::max<int64_t>(time.count(), 1));
}

bool WaitsLong(const RankSample& rank, std::chrono::steady_clock::time_point now) {
  if (rank.worker.place.state == 'T' || rank.worker.place.state == 't') return true;
  if (!rank.worker.flight) return false;
  const RecordedCollective* wait = LongestWait(*rank.worker.flight);
  return wait != nullptr && now - *wait->started >= kLongWait;
}

Culprit AwaitedOf(const JobSample& sample) {
  if (std::ranges::none_of(sample.ranks,
                           [&](const RankSample& rank) { return WaitsLong(rank, sample.now); })) {
    return {};
  }
  std::vector<WorkerActivity> activities;
  for (const RankSample& rank : sample.ranks) {
    if (rank.worker.rank >= 0) activities.push_back(rank.worker);
  }
  return FindAwaited(activities);
}

JobSample ReadJob(const LocalJob& job, std::span<const ProcessEntry> processes) {
  JobSample sample{.agent = job.agent,
                   .user = UserName(job.owner),
                   .command = job.command,
                   .slurm_job = job.slurm_job,
                   .folder = {},
                   .now = std::chrono::steady_clock::now()};
  const auto agent = std::ranges::find(processes, job.agent, &ProcessEntry::pid);
  if (agent != processes.end()) {
    sample.lifetime = std::chrono::duration_cast<std::chrono::seconds>(LifetimeOf(*agent));
  }
  if (!job.recorder.valid()) return sample;
  const auto reader = FlightReader::Open(job.recorder);
  if (!reader) return sample;
  const std::vector<Candidate> candidates = CandidatesOf(job, processes);
  std::vector<LiveWorker> living;
  for (int page = 0; page < (*reader)->count(); ++page) {
    RankSample rank = ReadRank(page, candidates, (*reader)->Read(page));
    const WorkerActivity& worker = rank.worker;
    if (worker.flight && worker.flight->world_size > 0) {
      sample.world_size = worker.flight->world_size;
      sample.restarts = worker.flight->restarts;
    } else if (worker.pid != 0 && sample.world_size == 0) {
      sample.world_size = IntegerOf(worker.pid, "WORLD_SIZE");
      sample.restarts = IntegerOf(worker.pid, "TORCHELASTIC_RESTART_COUNT");
    }
    if (worker.pid != 0 && worker.rank == 0) sample.folder = MakePrintable(RunFolderOf(worker.pid));
    // A worker of unknown rank cannot be told from others: each gets a number of its own.
    if (worker.pid != 0) living.push_back({-1 - page, page, worker.pid});
    sample.ranks.push_back(std::move(rank));
  }
  const std::map<pid_t, milliseconds> times = CpuTimes(living);
  for (RankSample& rank : sample.ranks) {
    const auto time = times.find(rank.worker.pid);
    if (time == times.end()) continue;
    rank.cpu_time = time->second;
    rank.cpu_share = ShareOf(rank.cpu_time, rank.lifetime);
  }
  sample.awaited = AwaitedOf(sample);
  return sample;
}

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

const RecordedCollective* LongestWait(const FlightSnapshot& flight) {
  const RecordedCollective* longest = nullptr;
  for (const RecordedCollective& collective : flight.collectives) {
    if (collective.state != CollectiveState::kWaiting || !collective.started) continue;
    if (longest == nullptr || *collective.started < *longest->started) longest = &collective;
  }
  return longest;
}

void MeasureSince(std::span<const JobSample> before, std::span<JobSample> now) {
  std::map<pid_t, std::pair<milliseconds, std::chrono::steady_clock::time_point>> old;
  for (const JobSample& job : before) {
    for (const RankSample& rank : job.ranks) old[rank.worker.pid] = {rank.cpu_time, job.now};
  }
  for (JobSample& job : now) {
    for (RankSample& rank : job.ranks) {
      const auto known = old.find(rank.worker.pid);
      if (known == old.end()) continue;
      const auto& [cpu_time, time] = known->second;
      rank.cpu_share = ShareOf(rank.cpu_time - cpu_time,
                               std::chrono::duration_cast<milliseconds>(job.now - time));
    }
  }
}

Result<TopSample> SampleJobs(const std::string& name) {
  const std::vector<ProcessEntry> processes = ListProcesses();
  TopSample sample;
  for (const LocalJob& job : FindLocalJobs(processes)) {
    if (job.readable) {
      sample.jobs.push_back(ReadJob(job, processes));
    } else {
      sample.unreadable.emplace_back(job.agent, UserName(job.owner));
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
