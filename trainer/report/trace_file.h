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
  std::vector<std::string> ranks = {};  // by rank: TraceEvents()
};

// Returns the events of one rank as JSON, separated by commas: its names, then a complete event for
// each span. `shift` is added to the spans' times.
std::string TraceEvents(const SpanLog::Spans& spans, int rank, std::chrono::nanoseconds shift);

// Writes the traces of a run. A later trace of the run replaces an earlier one.
class TraceFile final : public Observer {
 public:
  // `told` gets a note about each trace, or at the end the reason why there is none. `steps`: the
  // first and the last one to be traced. `continues_run`: this process replaces another one, which
  // may have written the trace.
  TraceFile(std::string path,
            std::vector<int64_t> steps,
            Observer& told,
            bool continues_run = false)
      : path_(std::move(path)), steps_(std::move(steps)), told_(told), done_(continues_run) {}

  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnTrace(const TraceReport& report, ReportTime now) override;
  void OnEnd(const RunEnd& end, ReportTime now) override;

 private:
  std::string Steps() const;

  const std::string path_;
  const std::vector<int64_t> steps_;
  Observer& told_;
  bool done_;  // nothing is to be said at the end
};

}  // namespace ddprun::trainer
