#include "trainer/report/step_timeline.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/untrusted_json.h"

namespace ddprun::trainer {

namespace {

using Json = nlohmann::json;
using Kind = StepTimeline::Kind;

constexpr double kMicrosecond = 1e-3;  // in milliseconds

// An event of the trace, on a clock of all ranks in milliseconds.
struct Event {
  int rank = 0;
  int thread = 0;
  StepTimeline::Span span;
};

double NumberIn(const Json& object, const char* name) {
  const auto value = object.find(name);
  return value != object.end() && value->is_number() ? value->get<double>() : 0;
}

std::string TextIn(const Json& object, const char* name) {
  const auto value = object.find(name);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

// Reads the events in the order of the file.
class EventReader {
 public:
  void Add(const Json& json) {
    const std::string kind = TextIn(json, "ph");
    const auto rank = static_cast<int>(NumberIn(json, "pid"));
    const auto thread = static_cast<int>(NumberIn(json, "tid"));
    if (kind == "M" && TextIn(json, "name") == "thread_name") {
      const auto arguments = json.find("args");
      if (arguments != json.end()) names[{rank, thread}] = TextIn(*arguments, "name");
    }
    if (kind == "e") EndMessage(json);
    if (kind != "X" && kind != "b") return;
    Event event{.rank = rank, .thread = thread, .span = {.name = TextIn(json, "name")}};
    const bool phase = TextIn(json, "cat") == "step";
    event.span.kind = phase ? Kind::kPhase : kind == "b" ? Kind::kMessage : Kind::kCollective;
    event.span.begin = NumberIn(json, "ts") * kMicrosecond;
    event.span.end = event.span.begin + NumberIn(json, "dur") * kMicrosecond;
    if (const auto arguments = json.find("args"); arguments != json.end()) {
      event.span.waited = NumberIn(*arguments, "waited_us") * kMicrosecond;
      event.span.of = TextIn(*arguments, "of");
    }
    if (kind == "b") messages_[TextIn(json, "id")] = events.size();
    events.push_back(std::move(event));
  }

  std::vector<Event> events;
  std::map<std::pair<int, int>, std::string> names;  // of a rank's thread

 private:
  void EndMessage(const Json& json) {
    const auto begun = messages_.find(TextIn(json, "id"));
    if (begun != messages_.end()) {
      events[begun->second].span.end = NumberIn(json, "ts") * kMicrosecond;
    }
  }

  std::map<std::string, size_t> messages_;  // by id: the place of the event
};

// Returns the beginning and the end of the step in the middle.
std::optional<std::pair<double, double>> MiddleStep(const std::vector<Event>& events) {
  std::vector<double> ends;  // of rank 0's updates
  double first = INFINITY;
  for (const Event& event : events) {
    first = std::min(first, event.span.begin);
    if (event.rank == 0 && event.span.kind == Kind::kPhase && event.span.name == "update") {
      ends.push_back(event.span.end);
    }
  }
  if (ends.empty()) return std::nullopt;
  std::ranges::sort(ends);
  const size_t middle = ends.size() / 2;
  return std::pair(middle == 0 ? first : ends[middle - 1], ends[middle]);
}

// Returns N of "step N, bucket 3"; 0 if there is none.
int64_t StepOf(const std::string& of) {
  int64_t step = 0;
  if (of.starts_with("step ")) std::from_chars(of.data() + 5, of.data() + of.size(), step);
  return step;
}

}  // namespace

std::optional<StepTimeline> ReadTimeline(std::string_view trace, int most_ranks) {
  const Json json = ParseUntrustedJson(trace);
  const auto events = json.is_object() ? json.find("traceEvents") : json.end();
  if (!json.is_object() || events == json.end() || !events->is_array()) return std::nullopt;
  EventReader reader;
  for (const Json& event : *events) {
    if (event.is_object()) reader.Add(event);
  }
  const auto step = MiddleStep(reader.events);
  if (!step || !(step->second > step->first)) return std::nullopt;
  StepTimeline timeline{.milliseconds = step->second - step->first};
  std::set<int> left_out;
  std::map<std::pair<int, int>, std::vector<StepTimeline::Span>> by_row;
  for (Event& event : reader.events) {
    StepTimeline::Span& span = event.span;
    if (!(span.end > step->first) || !(span.begin < step->second)) continue;
    if (event.rank < 0 || event.rank >= most_ranks) {
      left_out.insert(event.rank);
      continue;
    }
    span.waited = std::clamp(span.begin + span.waited - step->first, 0.0, timeline.milliseconds);
    span.begin = std::max(span.begin - step->first, 0.0);
    span.end = std::min(span.end - step->first, timeline.milliseconds);
    span.waited = std::clamp(span.waited - span.begin, 0.0, span.end - span.begin);
    if (timeline.step == 0) timeline.step = StepOf(span.of);
    by_row[{event.rank, event.thread}].push_back(std::move(span));
  }
  for (auto& [row, spans] : by_row) {
    for (StepTimeline::Span& span : spans) {
      span.row = timeline.rows.size();
      timeline.spans.push_back(std::move(span));
    }
    timeline.rows.push_back({row.first, reader.names[row]});
  }
  timeline.ranks_left_out = std::ssize(left_out);
  return timeline;
}

}  // namespace ddprun::trainer
