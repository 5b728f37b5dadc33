#include "launcher/hang/hang_state.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace ddprun::launcher {

namespace {

using std::chrono::milliseconds;

// Waiting threads wake up now and then: an idle Python with LibTorch uses about 0.1 % of a core.
// The kernel counts in ticks of 10 ms.
constexpr milliseconds kLittleCpuTime{20};
constexpr int kLittlePercent = 2;

bool IsInCollective(const FlightSnapshot& flight) {
  return std::any_of(flight.collectives.begin(), flight.collectives.end(), [](const auto& c) {
    return c.state == CollectiveState::kStarted || c.state == CollectiveState::kWaiting;
  });
}

bool ShowsMovement(const FlightSnapshot& before, const FlightSnapshot& after) {
  const auto all = [](const FlightSnapshot& s) {
    return std::tuple(s.phase, s.step, s.scheduled, s.started, s.ended, s.progress);
  };
  return all(before) != all(after);
}

bool UsedCpuTime(milliseconds before, milliseconds after, milliseconds elapsed) {
  // If the time is less than before, a descendant has ended, and no process has its time.
  return after < before ||
         after - before >= std::max(kLittleCpuTime, elapsed * kLittlePercent / 100);
}

}  // namespace

bool HasMoved(const WorkerSample& before, const WorkerSample& after, milliseconds elapsed) {
  if (after.flight) {
    if (!before.flight || ShowsMovement(*before.flight, *after.flight)) return true;
    if (after.flight->phase == WorkerPhase::kTraining || IsInCollective(*after.flight)) {
      return false;
    }
  }
  return after.output_bytes != before.output_bytes ||
         UsedCpuTime(before.cpu_time, after.cpu_time, elapsed);
}

bool HangState::Add(Time now, std::span<const WorkerSample> samples) {
  const auto elapsed = last_sample_ ? std::chrono::duration_cast<milliseconds>(now - *last_sample_)
                                    : milliseconds(0);
  last_sample_ = now;
  now_ += std::min(elapsed, 2 * interval_);
  std::set<pid_t> alive;
  for (const WorkerSample& sample : samples) {
    alive.insert(sample.pid);
    const auto [entry, is_new] = workers_.try_emplace(sample.pid, Known{sample, now_, now_});
    Known& known = entry->second;
    const bool printed = known.sample.output_bytes != sample.output_bytes;
    if (printed) known.printed = now_;
    if (is_new || HasMoved(known.sample, sample, elapsed)) known.moved = anything_moved_ = now_;
    known.sample = sample;
  }
  // The end of a worker counts as a movement of the group.
  if (std::erase_if(workers_, [&](const auto& w) { return !alive.contains(w.first); }) > 0) {
    anything_moved_ = now_;
  }
  return !samples.empty() && now_ - anything_moved_ >= timeout_;
}

milliseconds HangState::still_for() const {
  return now_ - anything_moved_;
}

milliseconds HangState::StillFor(pid_t pid) const {
  const auto found = workers_.find(pid);
  return found == workers_.end() ? milliseconds(0) : now_ - found->second.moved;
}

milliseconds HangState::SilentFor(pid_t pid) const {
  const auto found = workers_.find(pid);
  return found == workers_.end() ? milliseconds(0) : now_ - found->second.printed;
}

}  // namespace ddprun::launcher
