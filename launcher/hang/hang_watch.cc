#include "launcher/hang/hang_watch.h"

#include <algorithm>
#include <utility>

#include "launcher/hang/worker_activity.h"

namespace ddprun::launcher {

namespace {

using std::chrono::milliseconds;

// A look costs about a millisecond of CPU time.
milliseconds IntervalFor(milliseconds timeout) {
  return std::clamp(timeout / 5, milliseconds(50), milliseconds(15'000));
}

}  // namespace

HangWatch::HangWatch(Clock& clock,
                     milliseconds timeout,
                     HangSources sources,
                     std::function<void(const HangReport&)> on_hang)
    : clock_(clock),
      timeout_(timeout),
      interval_(IntervalFor(timeout)),
      sources_(std::move(sources)),
      on_hang_(std::move(on_hang)),
      state_(timeout, interval_) {
  CheckLater();
}

void HangWatch::CheckLater() {
  alarm_ = clock_.Set(interval_, [this] { Check(); });
}

void HangWatch::Check() {
  const std::vector<LiveWorker> workers = sources_.workers();
  std::map<pid_t, milliseconds> cpu_times = sources_.readers.cpu_times(workers);
  std::vector<WorkerSample> samples;
  for (const LiveWorker& worker : workers) {
    WorkerSample sample{
        .pid = worker.pid, .cpu_time = cpu_times[worker.pid], .output_bytes = worker.output_bytes};
    sample.flight = FlightOf(worker);
    samples.push_back(std::move(sample));
  }
  if (state_.Add(clock_.Now(), samples)) return on_hang_(Report(workers, samples));
  WarnOfDeadLink(workers);
  CheckLater();
}

void HangWatch::WarnOfDeadLink(const std::vector<LiveWorker>& workers) {
  const milliseconds still = state_.still_for();
  if (warned_ || !sources_.on_dead_link || still < timeout_ / 2) return;
  const std::vector<DeadLink> links = sources_.readers.dead_links(workers);
  if (links.empty()) return;
  warned_ = true;
  sources_.on_dead_link("no worker has moved for " + SecondsText(still) + ": " +
                        Describe(links[0]));
}

std::optional<FlightSnapshot> HangWatch::FlightOf(const LiveWorker& worker) const {
  if (sources_.flight == nullptr) return std::nullopt;
  return sources_.flight->Read(worker.local_rank);
}

HangReport HangWatch::Report(const std::vector<LiveWorker>& workers,
                             const std::vector<WorkerSample>& samples) const {
  HangReport report{.timeout = timeout_, .still_for = state_.still_for(), .now = clock_.Now()};
  for (size_t i = 0; i < workers.size(); ++i) {
    const LiveWorker& worker = workers[i];
    report.activities.push_back({.rank = worker.rank,
                                 .local_rank = worker.local_rank,
                                 .pid = worker.pid,
                                 .flight = samples[i].flight,
                                 .place = ReadProcessPlace(worker.pid),
                                 .still_for = state_.StillFor(worker.pid),
                                 .silent_for = state_.SilentFor(worker.pid)});
  }
  for (const LiveWorker& worker : sources_.ended ? sources_.ended() : std::vector<LiveWorker>()) {
    report.ended.push_back({worker.rank, worker.local_rank, worker.pid, FlightOf(worker)});
  }
  if (sources_.store_waits) report.waits = sources_.store_waits(workers);
  report.dead_links = sources_.readers.dead_links(workers);
  report.culprit = FindCulprit(report.activities, report.waits);
  if (report.culprit.ranks.empty()) {
    for (const WorkerActivity& ended : report.ended) report.culprit.ranks.push_back(ended.rank);
    report.culprit.reason = "has ended with code 0";
  }
  return report;
}

}  // namespace ddprun::launcher
