#include "trainer/report/trace_file.h"

#include <unistd.h>

#include <array>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"

namespace ddprun::trainer {

namespace {

using EventJson = nlohmann::ordered_json;

constexpr int kPhaseThread = 1;
constexpr int kMessageThread = 2;
constexpr int kFirstGroupThread = 3;

// The format wants microseconds.
double Microseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

int ThreadOf(const TimeSpan& span) {
  if (!span.is_collective) return kPhaseThread;
  if (IsMessage(span.collective.kind)) return kMessageThread;
  return kFirstGroupThread + (span.collective.group & ((1 << kPartGroupBits) - 1));
}

std::string NameOfThread(int thread) {
  if (thread == kPhaseThread) return "step";
  if (thread == kMessageThread) return "messages";
  if (thread == kFirstGroupThread) return "collectives of all ranks";
  return "collectives of group " + std::to_string(thread - kFirstGroupThread);
}

EventJson NameEvent(std::string_view what, int rank, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

EventJson ArgumentsOf(const TimeSpan& span) {
  EventJson arguments = {{"number", span.collective.number},
                         {"bytes", span.collective.bytes},
                         {"waited_us", Microseconds(span.waited)}};
  if (!span.collective.type.empty()) arguments["type"] = span.collective.type;
  if (!span.where.empty()) arguments["of"] = span.where;
  return arguments;
}

void Append(const EventJson& event, std::string& text) {
  if (!text.empty()) text += ",\n";
  text += event.dump();
}

}  // namespace

std::string TraceEvents(const SpanLog::Spans& spans, int rank, std::chrono::nanoseconds shift) {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  std::string process = "rank " + std::to_string(rank) + " (" + host.data() + ", pid " +
                        std::to_string(::getpid()) + ")";
  if (spans.lost > 0) process += ", without its last " + std::to_string(spans.lost) + " spans";
  std::string text;
  Append(NameEvent("process_name", rank, 0, process), text);
  std::set<int> threads;
  int64_t message = 0;
  for (const TimeSpan& span : spans.spans) {
    const int thread = ThreadOf(span);
    if (threads.insert(thread).second) {
      Append(NameEvent("thread_name", rank, thread, NameOfThread(thread)), text);
    }
    const auto begin = span.begin.time_since_epoch() + shift;
    EventJson event = {{"ph", "X"},         {"cat", span.is_collective ? "communication" : "step"},
                       {"name", span.name}, {"pid", rank},
                       {"tid", thread},     {"ts", Microseconds(begin)}};
    if (span.is_collective) event["args"] = ArgumentsOf(span);
    if (thread != kMessageThread) {
      event["dur"] = Microseconds(span.end - span.begin);
      Append(event, text);
      continue;
    }
    // Several messages may be under way, which complete events of one thread cannot show.
    event["id"] = std::to_string(rank) + "." + std::to_string(message++);
    event["ph"] = "b";
    Append(event, text);
    event["ph"] = "e";
    event["ts"] = Microseconds(span.end.time_since_epoch() + shift);
    event.erase("args");
    Append(event, text);
  }
  return text;
}

std::string TraceFile::Steps() const {
  return "steps " + std::to_string(steps_.front()) + " to " + std::to_string(steps_.back());
}

void TraceFile::OnBegin(const RunHeader& header, ReportTime /*now*/) {
  if (header.resumed_step >= steps_.back()) done_ = true;  // a matter of an earlier start
}

void TraceFile::OnEnd(const RunEnd& end, ReportTime /*now*/) {
  // A failure has its own message, and a restart may make the trace.
  if (done_ || end.reason == "failed") return;
  told_.OnNote("warning: no trace of " + Steps() + ": " +
               (end.step < steps_.back() ? "the run ended after step " + std::to_string(end.step)
                                         : "not all of them were made in this start"));
}

void TraceFile::OnTrace(const TraceReport& report, ReportTime /*now*/) {
  done_ = true;
  std::string text = "{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n";
  for (const std::string& events : report.ranks) {
    if (&events != &report.ranks.front()) text += ",\n";
    text += events;
  }
  text += "\n]}\n";
  const Status status = WriteFileAtomically(path_, text, Durability::kUnsynced);
  told_.OnNote(status.ok()
                   ? "trace of " + Steps() + ": " + path_ + " (for ui.perfetto.dev)"
                   : "warning: the trace of " + Steps() + " is lost: " + status.error().what);
}

}  // namespace ddprun::trainer
