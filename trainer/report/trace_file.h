// trace.json: what all ranks did in some steps, in the trace event format of Chrome, which Perfetto
// and other viewers read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/span_log.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// The work of all ranks in some steps (report.trace_steps).
struct TraceReport {
  int64_t first_step = 0;
  int64_t last_step = 0;
  std::vector<std::string> ranks = {};  // by rank: TraceEvents()
};

// Returns the events of one rank as JSON, separated by commas: its names, then a complete event for
// each span. `shift` is added to the spans' times.
std::string TraceEvents(const SpanLog::Spans& spans, int rank, std::chrono::nanoseconds shift);

// Writes the traces of a run. A later trace of the run replaces an earlier one.
class TraceFile final : public Observer {
 public:
  // `told` gets a note about each trace.
  TraceFile(std::string path, Observer& told) : path_(std::move(path)), told_(told) {}

  void OnTrace(const TraceReport& report, ReportTime now) override;

 private:
  const std::string path_;
  Observer& told_;
};

}  // namespace ddprun::trainer
