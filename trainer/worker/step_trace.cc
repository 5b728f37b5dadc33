#include "trainer/worker/step_trace.h"

#include <ATen/ops/zeros.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/read_file.h"
#include "base/span_log.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/whole_state.h"
#include "trainer/report/trace_file.h"

namespace ddprun::trainer {

namespace {

constexpr int64_t kMeetings = 32;

int64_t Now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Returns a number that is equal for processes whose steady clocks are the same.
int64_t ClockIdentity() {
  std::string text = ReadIfReadable("/proc/sys/kernel/random/boot_id").value_or("");
  struct stat times = {};
  if (::stat("/proc/self/ns/time", &times) == 0) text += std::to_string(times.st_ino);
  return static_cast<int64_t>(std::hash<std::string>()(text));
}

// A collective. Returns what this rank adds to its clock to have rank 0's.
int64_t OffsetToRankZero(const Mesh& mesh) {
  if (mesh.world.size == 1) return 0;
  // For each rank: the clock's identity, then the times of its meetings.
  const at::Tensor rows = at::zeros({mesh.world.size, 1 + 2 * kMeetings}, at::kLong);
  auto* const all = rows.mutable_data_ptr<int64_t>();
  int64_t* const own = all + mesh.world.rank * rows.size(1);
  own[0] = ClockIdentity();
  const at::Tensor nothing = at::zeros({1}, at::kLong);
  for (int64_t i = 0; i < kMeetings; ++i) {
    own[1 + i] = Now();
    AllReduceOnHost(mesh.control.get(), nothing);
    own[1 + kMeetings + i] = Now();
  }
  AllReduceOnHost(mesh.control.get(), rows);  // other ranks have zeros in this rank's row
  if (own[0] == all[0]) return 0;
  const auto times = [](const int64_t* row) {
    return MeetingTimes{{row + 1, kMeetings}, {row + 1 + kMeetings, kMeetings}};
  };
  return ClockOffset(times(all), times(own));
}

// A collective. Returns the first time of all ranks' spans on rank 0's clock.
int64_t FirstTime(const Mesh& mesh, const std::vector<TimeSpan>& spans, int64_t offset) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const TimeSpan& span : spans) {
    first = std::min(first, span.begin.time_since_epoch() / std::chrono::nanoseconds(1) + offset);
  }
  const at::Tensor least = at::zeros({1}, at::kLong);
  least.mutable_data_ptr<int64_t>()[0] = first;
  AllReduceOnHost(mesh.control.get(), least, c10d::ReduceOp::MIN);
  return least.const_data_ptr<int64_t>()[0];
}

}  // namespace

int64_t ClockOffset(const MeetingTimes& first, const MeetingTimes& own) {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < own.came.size(); ++i) {
    least = std::max(least, first.came[i] - own.left[i]);
    most = std::min(most, first.left[i] - own.came[i]);
  }
  return least + (most - least) / 2;
}

void StepTrace::BeforeStep(const Step& step) {
  SpanLog& log = SpanLog::OfProcess();
  if (step.number == first_ && !log.is_open()) log.Open();
}

void StepTrace::AfterUpdate(const Step& step) {
  SpanLog& log = SpanLog::OfProcess();
  if (step.number + 1 == first_) log.Open();  // so that the first step's wait for data is there
  if (step.number != last_) return;
  try {
    Report(step.observers);
  } catch (const Failure& failure) {
    if (failure.error().code != Code::kRankLost) throw;
    // The step has been done. If the lost rank is replaced, the next meeting of all ranks sees to
    // it.
    log.Close();
    if (step.observers != nullptr) step.observers->Note("no trace: a rank was lost at its end");
  }
}

void StepTrace::Report(const Observers* observers) const {
  SpanLog& log = SpanLog::OfProcess();
  // A rank that joined or resumed within the steps has not logged the first ones: no trace.
  const bool whole = AllRanks(mesh_, log.is_open());
  const SpanLog::Spans spans = log.Close();
  if (!whole) return;
  const int64_t offset = OffsetToRankZero(mesh_);
  const int64_t first = FirstTime(mesh_, spans.spans, offset);
  const TraceReport report{
      .ranks = ExchangeTexts(
          mesh_.control.get(),
          TraceEvents(spans, mesh_.world.rank, std::chrono::nanoseconds(offset - first)))};
  if (observers != nullptr) observers->Notify(&Observer::OnTrace, report);
}

}  // namespace ddprun::trainer
