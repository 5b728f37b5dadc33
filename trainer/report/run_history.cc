#include "trainer/report/run_history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/metric_order.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/untrusted_json.h"
#include "trainer/report/eval_json.h"
#include "trainer/report/format.h"
#include "trainer/report/line_json.h"
#include "trainer/report/own_times.h"
#include "trainer/report/run_folder.h"

namespace ddprun::trainer {

namespace {

// A curve of training: dividend and divisor are fields of a line. Without a divisor it is 1.
struct Quotient {
  const char* title;
  const char* dividend;
  const char* divisor = nullptr;
  double unit = 1;
};
constexpr double kGiB = 1 << 30;
constexpr std::array kCurves = {
    Quotient{"loss", "mean_loss"},
    Quotient{"learning rate", "learning_rate"},
    Quotient{"gradient norm", "grad_norm"},
    Quotient{"samples/s", "samples", "step_seconds"},
    Quotient{"tokens/s", "tokens", "step_seconds"},
    Quotient{"exposed communication, share of the step", "exposed_comm_seconds", "step_seconds"},
    Quotient{"pipeline bubble, share of the step", "pipeline_bubble"},
    Quotient{"loss scale", "loss_scale"},
    Quotient{"memory allocated on the fullest GPU, GiB", "max_memory_allocated", nullptr, kGiB},
    Quotient{"memory reserved on the fullest GPU, GiB", "max_memory_reserved", nullptr, kGiB},
};

constexpr const char* kSlowestRank = "own time of the slowest rank, times the median";

constexpr std::array<std::pair<const char*, const char*>, 6> kUses = {{
    {"useful_seconds", "steps that count"},
    {"data_seconds", "waiting for batches"},
    {"ranks_seconds", "waiting for other ranks"},
    {"saving_seconds", "waiting for saves"},
    {"evaluation_seconds", "evaluation"},
    {"lost_seconds", "starts, repeated steps and the rest"},
}};

// Adds the lines of metrics.jsonl to a RunHistory, in their order.
class LineReader {
 public:
  explicit LineReader(RunHistory& run) : run_(run) {}

  void Add(const LineJson& line) {
    const std::string split = TextOf(line, "split");
    const std::string event = TextOf(line, "event");
    if (split == "train") AddStep(line);
    if (split == "validation") AddEvaluation(line);
    if (split == "test") AddTest(line);
    if (event == "start") AddStart(line);
    if (event == "checkpoint") AddCheckpoint(line);
    if (event == "ledger") AddLedger(line);
    if (event == "device_memory") AddMemory(line);
    if (event == "end") AddEnd(line);
    last_step_ = std::max(last_step_, StepIn(line));
    last_time_ = NumberOf(line, "ts").value_or(last_time_);
    ended_ = event == "end" || (ended_ && event != "start");
  }

  void Finish() {
    run_.own_times = own_times_.Means();
    if (run_.events.empty() && run_.training.empty()) {
      run_.notes.emplace_back("metrics.jsonl has no line of a start or a step yet.");
    } else if (!ended_) {
      run_.notes.push_back("The run has not ended: it is under way, or it was killed. Its last " +
                           std::string("line is of step ") + std::to_string(last_step_) + ".");
      run_.events.push_back({last_time_, last_step_, "not ended"});
    }
  }

 private:
  void Note(const LineJson& line, std::string text, bool bad = false) {
    run_.events.push_back({NumberOf(line, "ts").value_or(0), StepIn(line), std::move(text), bad});
  }

  void AddStart(const LineJson& line) {
    run_.facts.clear();
    own_times_ = OwnTimes();
    for (const auto& [name, value] : line.items()) {
      static const std::set<std::string> kElsewhere = {"ts", "event", "run", "resumed_step",
                                                       "changes"};
      if (kElsewhere.contains(name)) continue;
      if (name != "world" || !value.is_object()) {
        run_.facts.emplace_back(name, TextOf(line, name));
        continue;
      }
      run_.facts.emplace_back("ranks", TextOf(value, "size"));
      run_.facts.emplace_back("nodes", TextOf(value, "nodes"));
    }
    if (!TextOf(line, "run").empty()) run_.name = TextOf(line, "run");
    const int64_t resumed = CountOf(line, "resumed_step");
    const auto world = line.find("world");
    const int64_t size = world != line.end() && world->is_object() ? CountOf(*world, "size") : 1;
    const std::string ranks = CountText(size, "rank");
    std::string text = "start on " + ranks;
    if (resumed > 0) text += ", from step " + std::to_string(resumed);
    if (const auto changes = line.find("changes"); changes != line.end()) {
      for (const LineJson& change : *changes) {
        if (change.is_string()) text += "; " + change.get<std::string>();
      }
    }
    Note(line, std::move(text));
    run_.events.back().step = resumed;
  }

  void AddStep(const LineJson& line) {
    const auto step = static_cast<double>(StepIn(line));
    for (const Quotient& curve : kCurves) {
      auto value = NumberOf(line, curve.dividend);
      if (value && curve.divisor != nullptr) {
        const auto divisor = NumberOf(line, curve.divisor);
        value = divisor && *divisor > 0 ? std::optional(*value / *divisor) : std::nullopt;
      }
      if (value) PointsOf(run_.training, curve.title).push_back({step, *value / curve.unit});
    }
    if (const auto own = line.find("own_seconds"); own != line.end()) {
      own_times_.Add(*own);
      const auto excess = OwnTimes::SlowestToMedian(*own);
      if (excess) PointsOf(run_.training, kSlowestRank).push_back({step, *excess});
    }
  }

  // Returns the loss and the metrics of an evaluation.
  static std::vector<RunHistory::Best> ResultsIn(const LineJson& line) {
    static const std::set<std::string> kNoMetrics = {"ts", "step", "epoch", "samples", "seconds"};
    std::vector<RunHistory::Best> results;
    for (const auto& [name, ignored] : line.items()) {
      const auto value = NumberOf(line, name);
      if (value && !kNoMetrics.contains(name)) results.push_back({name, *value, StepIn(line)});
    }
    return results;
  }

  void AddEvaluation(const LineJson& line) {
    for (RunHistory::Best& found : ResultsIn(line)) {
      PointsOf(run_.validation, found.metric)
          .push_back({static_cast<double>(found.step), found.value});
      if (found.step > 0) AddBest(std::move(found));  // not evaluation.eval_on_start
    }
    AddConfusion("validation", line);
  }

  void AddTest(const LineJson& line) {
    run_.test = ResultsIn(line);
    AddConfusion("test", line);
  }

  void AddConfusion(const std::string& split, const LineJson& line) {
    ConfusionMatrix found = ConfusionIn(line);
    if (found.size() == 0) return;
    run_.confusion = std::move(found);
    run_.confusion_of = split + ", step " + std::to_string(StepIn(line));
  }

  void AddBest(RunHistory::Best found) {
    if (std::isnan(found.value)) return;
    const auto best = std::ranges::find(run_.best, found.metric, &RunHistory::Best::metric);
    if (best == run_.best.end()) {
      run_.best.push_back(std::move(found));
    } else if (HigherIsBetter(found.metric) ? found.value > best->value
                                            : found.value < best->value) {
      *best = std::move(found);
    }
  }

  void AddCheckpoint(const LineJson& line) {
    const std::string error = TextOf(line, "error");
    const double bytes = NumberOf(line, "bytes").value_or(0);
    const std::string path = TextOf(line, "path");
    Note(line,
         error.empty() ? "checkpoint " + path.substr(path.rfind('/') + 1) + ", " + ByteText(bytes) +
                             " in " + Duration(NumberOf(line, "seconds").value_or(0))
                       : "a checkpoint failed: " + error,
         !error.empty());
  }

  void AddLedger(const LineJson& line) {
    run_.seconds.clear();
    for (const auto& [field, use] : kUses) {
      run_.seconds.emplace_back(use, std::max(NumberOf(line, field).value_or(0), 0.0));
    }
    run_.goodput = NumberOf(line, "goodput").value_or(0);
  }

  void AddMemory(const LineJson& line) {
    run_.memory.clear();
    const auto devices = line.find("devices");
    if (devices == line.end()) return;
    for (const LineJson& device : *devices) {
      if (!device.is_object()) continue;
      RunHistory::Memory memory{.device = TextOf(device, "device"), .uses = {}};
      for (const char* use :
           {"model", "gradients", "optimizer", "batch", "outputs", "gathered", "bytes"}) {
        memory.uses.emplace_back(use, NumberOf(device, use).value_or(0));
      }
      run_.memory.push_back(std::move(memory));
    }
  }

  void AddEnd(const LineJson& line) {
    const std::string reason = TextOf(line, "reason");
    const std::string message = TextOf(line, "message");
    Note(line, message.empty() ? reason : reason + ": " + message, reason == "failed");
  }

  RunHistory& run_;
  OwnTimes own_times_;
  int64_t last_step_ = 0;
  double last_time_ = 0;
  bool ended_ = false;
};

void ReadLines(std::string_view text, RunHistory& run) {
  LineReader reader(run);
  int64_t number = 0;
  int64_t damaged = 0;
  int64_t first_damaged = 0;
  for (const std::string_view part : SplitAt(text, '\n')) {
    ++number;
    if (part.empty()) continue;
    const LineJson line = ParseUntrustedJson(part);
    if (line.is_object()) {
      reader.Add(line);
    } else if (++damaged == 1) {
      first_damaged = number;
    }
  }
  reader.Finish();
  if (damaged == 0) return;
  run.notes.push_back(CountText(damaged, "line") + " of metrics.jsonl could not be read, the " +
                      "first is line " + std::to_string(first_damaged) + ". This page lacks " +
                      (damaged == 1 ? "it." : "them."));
}

void ReadConfigKeys(std::string_view text, RunHistory& run) {
  const LineJson config = ParseUntrustedJson(text);
  if (!config.is_object()) {
    run.notes.push_back(std::string(kResolvedConfig) + " could not be read.");
    return;
  }
  for (const auto& [section, values] : config.items()) {
    if (!values.is_object()) continue;
    for (const auto& [name, value] : values.items()) {
      run.config[section + "." + name] = TextOf(values, name);
    }
  }
}

void ReadTrace(const std::string& path, RunHistory& run) {
  constexpr int kMostRanks = 16;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const std::optional<std::string> trace = ReadUntrustedFile(path);
  if (trace) run.timeline = ReadTimeline(*trace, kMostRanks);
  if (run.timeline) return;
  run.notes.emplace_back(trace ? "trace.json has no whole step to show here."
                               : "trace.json is too large to show here: trace fewer steps, or use "
                                 "ui.perfetto.dev.");
}

}  // namespace

std::vector<ChartPoint>& PointsOf(std::vector<RunHistory::Curve>& curves,
                                  const std::string& title) {
  const auto curve = std::ranges::find(curves, title, &RunHistory::Curve::title);
  return curve != curves.end() ? curve->points
                               : curves.emplace_back(RunHistory::Curve{title, {}}).points;
}

Result<RunHistory> ReadRunHistory(const std::string& folder) {
  RunHistory run;
  run.folder = folder;
  DDPRUN_ASSIGN(const std::optional<std::string> metrics, ReadFile(folder + "/metrics.jsonl"));
  DDPRUN_ASSIGN(const std::optional<std::string> config,
                ReadFile(folder + "/" + std::string(kResolvedConfig)));
  if (!metrics && !config) {
    return Error{.code = Code::kUsage,
                 .title = "NO RUN FOLDER",
                 .where = folder,
                 .what = "\"" + folder + "\" has no metrics.jsonl and no config.resolved.json.",
                 .hint = "Name the folder that a run has left: runs/NAME.",
                 .page = "no-run-folder"};
  }
  if (config) {
    ReadConfigKeys(*config, run);
  } else {
    run.notes.push_back("There is no " + std::string(kResolvedConfig) + ".");
  }
  if (metrics) {
    ReadLines(*metrics, run);
  } else {
    run.notes.emplace_back("There is no metrics.jsonl: the run has not started.");
  }
  if (run.name.empty()) run.name = folder;
  ReadTrace(folder + "/trace.json", run);
  return run;
}

}  // namespace ddprun::trainer
