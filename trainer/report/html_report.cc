#include "trainer/report/html_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "base/text.h"
#include "trainer/report/format.h"
#include "trainer/report/html_table.h"
#include "trainer/report/rank_times_report.h"
#include "trainer/report/rate_chart.h"
#include "trainer/report/timeline_picture.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kMostPoints = 1500;  // of a curve
constexpr size_t kMostEvents = 200;   // of a run
constexpr size_t kMostClasses = 50;   // of a confusion matrix

std::string UtcText(double unix_seconds) {
  if (!(unix_seconds > 0 && unix_seconds < 1e11)) return "";
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc = {};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> buffer{};
  std::strftime(buffer.data(), buffer.size(), "%Y-%m-%d %H:%M:%S", &utc);
  return buffer.data();
}

std::string Mark(const std::string& color) {
  return "<i style=\"background:" + color + "\"></i>";
}

// The runs of a page, with a label for each that no other run has.
class Page {
 public:
  explicit Page(const std::vector<RunHistory>& runs) : runs_(runs) {
    std::map<std::string, int> names;
    for (const RunHistory& run : runs) ++names[run.name];
    for (const RunHistory& run : runs) {
      labels_.push_back(names[run.name] > 1 ? run.name + " (" + run.folder + ")" : run.name);
    }
  }

  std::string Title() const { return FormatList(labels_); }

  std::string Body() const {
    return "<h1>" + EscapeHtml(Title()) + "</h1>\n" + Overview() + Notes() + Charts() + Steps() +
           Confusions() + Differences() + Times() + OwnTimes() + Memory() + Events() + Configs();
  }

  std::string Steps() const {
    std::string html;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].timeline) html += HeadOf(i) + TimelinePicture(*runs_[i].timeline);
    }
    return html.empty() ? "" : "<h2>One step</h2>\n" + html;
  }

 private:
  bool several() const { return runs_.size() > 1; }
  std::string Label(size_t run) const {
    return (several() ? Mark(ChartColor(run)) : std::string()) + EscapeHtml(labels_[run]);
  }
  // Returns a heading with the run's label, if there are several.
  std::string HeadOf(size_t run) const {
    return several() ? "<h3>" + Label(run) + "</h3>\n" : std::string();
  }

  // A column for each run.
  std::string Overview() const {
    std::vector<std::string> names;
    std::map<std::string, std::map<size_t, std::string>> values;
    const auto add = [&](size_t run, const std::string& name, const std::string& value) {
      if (!values.contains(name)) names.push_back(name);
      values[name][run] = EscapeHtml(value);
    };
    for (size_t i = 0; i < runs_.size(); ++i) {
      const RunHistory& run = runs_[i];
      add(i, "folder", run.folder);
      if (!run.events.empty()) add(i, "state", run.events.back().text);
      for (const RunHistory::Curve& curve : run.training) {
        const ChartPoint& last = curve.points.back();
        if (curve.title == "loss") add(i, "steps", std::to_string(std::llround(last.x)));
        if (curve.title == "loss") add(i, "training loss", FiveDigits(last.y));
        if (curve.title == "samples/s") add(i, "samples/s, median", FiveDigits(Median(curve)));
      }
      for (const RunHistory::Best& best : run.best) {
        add(i, "best " + best.metric,
            FiveDigits(best.value) + " at step " + std::to_string(best.step));
      }
      for (const RunHistory::Best& test : run.test) {
        add(i, "test " + test.metric,
            FiveDigits(test.value) + " at step " + std::to_string(test.step));
      }
      for (const auto& [name, value] : run.facts) add(i, name, value);
    }
    Cells heads = {""};
    for (size_t i = 0; i < runs_.size(); ++i) heads.push_back(Label(i));
    std::string html = TableOf(heads);
    for (const std::string& name : names) {
      Cells cells = {EscapeHtml(name)};
      for (size_t i = 0; i < runs_.size(); ++i) cells.push_back(values[name][i]);
      html += Row(cells);
    }
    return html + std::string(kTableEnd);
  }

  static double Median(const RunHistory::Curve& curve) {
    std::vector<double> values;
    for (const ChartPoint& point : curve.points) values.push_back(point.y);
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
  }

  std::string Notes() const {
    std::string html;
    for (size_t i = 0; i < runs_.size(); ++i) {
      for (const std::string& note : runs_[i].notes) {
        html += "<p class=\"note\">" + (several() ? Label(i) + ": " : std::string()) +
                EscapeHtml(note) + "</p>\n";
      }
    }
    return html;
  }

  // A chart for each title; the losses of training and validation share one.
  std::string Charts() const {
    std::vector<RunHistory::Curve> titles;  // without points
    for (const RunHistory& run : runs_) {
      for (const auto* curves : {&run.validation, &run.training}) {
        for (const RunHistory::Curve& curve : *curves) PointsOf(titles, curve.title);
      }
    }
    std::stable_partition(titles.begin(), titles.end(),
                          [](const RunHistory::Curve& curve) { return curve.title == "loss"; });
    std::string html;
    for (const RunHistory& run : runs_) html += RateChart(run);
    for (const RunHistory::Curve& titled : titles) html += Chart(titled.title);
    return html.empty() ? "" : "<h2>Curves</h2>\n<div class=\"charts\">\n" + html + "</div>\n";
  }

  std::string Chart(const std::string& title) const {
    std::vector<ChartLine> lines;
    int64_t broken = 0;
    for (size_t i = 0; i < runs_.size(); ++i) {
      for (const auto* curves : {&runs_[i].training, &runs_[i].validation}) {
        const bool validation = curves == &runs_[i].validation;
        const auto curve = std::ranges::find(*curves, title, &RunHistory::Curve::title);
        if (curve == curves->end()) continue;
        broken += std::ranges::count_if(curve->points,
                                        [](const ChartPoint& p) { return !std::isfinite(p.y); });
        const bool both = title == "loss";
        const std::string kind = !both ? title : validation ? "validation" : "training";
        lines.push_back({.label = !several() ? kind
                                  : both     ? labels_[i] + " " + kind
                                             : labels_[i],
                         .color = ChartColor(several() || !validation ? i : i + 1),
                         .dashed = several() && both && validation,
                         .points = ThinPoints(curve->points, kMostPoints)});
      }
    }
    std::string legend;
    for (const ChartLine& line : lines) {
      if (lines.size() == 1 && !several()) break;  // the title says it
      legend +=
          Mark(line.color) + EscapeHtml(line.label) + (line.dashed ? " (dashed)" : "") + " \u00a0 ";
    }
    if (broken > 0) legend += CountText(broken, "value") + " not finite";
    const std::string chart = LineChart(title, {.title = "optimizer steps"}, lines);
    return "<figure><h3>" + EscapeHtml(title) + "</h3>" + chart + "<figcaption>" + legend +
           "</figcaption></figure>\n";
  }

  std::string Confusions() const {
    std::string html;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const ConfusionMatrix& confusion = runs_[i].confusion;
      if (confusion.size() == 0 || confusion.size() > kMostClasses) continue;
      html += HeadOf(i) + "<p>" + runs_[i].confusion_of +
              ": a row for each actual class, a column for each predicted one</p>\n" +
              Pairs(confusion);
    }
    return html.empty() ? "" : "<h2>Confusion matrix</h2>\n" + html;
  }

  // A cell is as dark as its share of the row.
  static std::string Pairs(const ConfusionMatrix& confusion) {
    Cells heads = {""};
    for (const std::string& label : confusion.labels) heads.push_back(EscapeHtml(label));
    heads.insert(heads.end(), {"precision", "recall", "F1"});
    std::string html = TableOf(heads);
    const std::vector<ClassScores> scores = ScoresByClass(confusion);
    for (size_t actual = 0; actual < confusion.size(); ++actual) {
      Cells cells = {EscapeHtml(confusion.labels[actual])};
      const auto samples = static_cast<double>(std::max<int64_t>(scores[actual].samples, 1));
      for (size_t predicted = 0; predicted < confusion.size(); ++predicted) {
        const int64_t count = confusion.At(actual, predicted);
        const double share = std::round(60 * static_cast<double>(count) / samples);
        cells.push_back("<b class=\"" + std::string(actual == predicted ? "hit" : "miss") +
                        "\" style=\"--share:" + FiveDigits(share) + "%\">" + std::to_string(count) +
                        "</b>");
      }
      for (const double score :
           {scores[actual].precision, scores[actual].recall, scores[actual].f1}) {
        cells.push_back(FiveDigits(score));
      }
      html += Row(cells);
    }
    return html + std::string(kTableEnd);
  }

  // The keys in which configs differ.
  std::string Differences() const {
    if (!several()) return "";
    std::set<std::string> keys;
    for (const RunHistory& run : runs_) {
      for (const auto& [key, value] : run.config) keys.insert(key);
    }
    keys.erase("run.name");  // as in ddp-trainer diff
    keys.erase("run.output_dir");
    std::string rows;
    for (const std::string& key : keys) {
      Cells cells = {EscapeHtml(key)};
      std::set<std::string> values;
      for (const RunHistory& run : runs_) {
        const auto value = run.config.find(key);
        cells.push_back(value == run.config.end() ? "-" : EscapeHtml(value->second));
        values.insert(cells.back());
      }
      if (values.size() > 1) rows += Row(cells);
    }
    if (rows.empty()) return "<h2>Configs</h2>\n<p>The configs are the same.</p>\n";
    Cells heads = {"key"};
    for (size_t i = 0; i < runs_.size(); ++i) heads.push_back(Label(i));
    return "<h2>Keys that differ</h2>\n" + TableOf(heads) + rows + std::string(kTableEnd);
  }

  std::string Times() const {
    std::string html;
    for (size_t i = 0; i < runs_.size(); ++i) {
      double all = 0;
      for (const auto& [use, seconds] : runs_[i].seconds) all += seconds;
      if (!(all > 0)) continue;
      std::string bar;
      std::string rows;
      size_t color = 2;  // green: steps that count
      for (const auto& [use, seconds] : runs_[i].seconds) {
        const double share = 100 * seconds / all;
        bar += "<span style=\"width:" + FiveDigits(share) + "%" +
               ";background:" + ChartColor(color) + "\"></span>";
        rows += Row({Mark(ChartColor(color++)) + use, FiveDigits(seconds) + " s",
                     FiveDigits(std::round(10 * share) / 10) + " %"});
      }
      html += HeadOf(i) + "<div class=\"bar\">" + bar + "</div>" +
              TableOf({"of " + Duration(all) + ", all starts", "seconds", "share"}) + rows +
              std::string(kTableEnd);
    }
    return html.empty() ? "" : "<h2>Where the time went</h2>\n" + html;
  }

  std::string OwnTimes() const {
    const auto milliseconds = [](double seconds) { return FiveDigits(1e3 * seconds) + " ms"; };
    std::string html;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].own_times.empty()) continue;
      html += HeadOf(i) + TableOf({"phase", "fastest", "median", "slowest", "mostly rank"});
      for (const RunHistory::OwnTime& time : runs_[i].own_times) {
        html +=
            Row({std::string(PhaseText(time.phase)), milliseconds(time.least),
                 milliseconds(time.median), milliseconds(time.most), std::to_string(time.slowest)});
      }
      html += kTableEnd;
    }
    return html.empty() ? ""
                        : "<h2>A step by rank</h2>\n<p>The time that a rank needs by itself, "
                          "without waits for other ranks.</p>\n" +
                              html;
  }

  std::string Memory() const {
    std::string html;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].memory.empty()) continue;
      Cells heads = {"device"};
      for (const auto& [use, bytes] : runs_[i].memory.front().uses) {
        heads.push_back(use == "bytes" ? "together" : use);
      }
      html += HeadOf(i) + TableOf(heads);
      for (const RunHistory::Memory& memory : runs_[i].memory) {
        Cells cells = {EscapeHtml(memory.device)};
        for (const auto& [use, bytes] : memory.uses) cells.push_back(ByteText(bytes));
        html += Row(cells);
      }
      html += kTableEnd;
    }
    return html.empty() ? "" : "<h2>Memory by device</h2>\n" + html;
  }

  std::string Events() const {
    std::string html;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const std::vector<RunHistory::Event>& events = runs_[i].events;
      if (events.empty()) continue;
      html += HeadOf(i);
      const size_t left_out = events.size() > kMostEvents ? events.size() - kMostEvents : 0;
      if (left_out > 0) html += "<p>" + std::to_string(left_out) + " earlier ones left out.</p>\n";
      html += TableOf({"time (UTC)", "step", "event"});
      for (size_t at = left_out; at < events.size(); ++at) {
        const RunHistory::Event& event = events[at];
        html +=
            Row({UtcText(event.unix_seconds), std::to_string(event.step), EscapeHtml(event.text)},
                event.bad);
      }
      html += kTableEnd;
    }
    return html.empty() ? "" : "<h2>Events</h2>\n" + html;
  }

  std::string Configs() const {
    std::string html;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].config.empty()) continue;
      html += "<details><summary>Config of " + Label(i) + "</summary><pre>";
      for (const auto& [key, value] : runs_[i].config)
        html += EscapeHtml(key + ": " + value + "\n");
      html += "</pre></details>\n";
    }
    return html.empty() ? "" : "<h2>All keys</h2>\n" + html;
  }

  const std::vector<RunHistory>& runs_;
  std::vector<std::string> labels_;
};

// Returns `text` with the first `word` replaced.
std::string Filled(std::string_view text, std::string_view word, const std::string& value) {
  const size_t at = text.find(word);
  return std::string(text.substr(0, at)) + value + std::string(text.substr(at + word.size()));
}

std::string PageOf(const std::string& title, const std::string& body) {
  return Filled(Filled(kReportPage, "{{body}}", body), "{{title}}", EscapeHtml(title));
}

}  // namespace

std::string HtmlReport(const std::vector<RunHistory>& runs) {
  const Page page(runs);
  return PageOf(page.Title(), page.Body());
}

std::string StepPage(const std::vector<RunHistory>& runs) {
  const Page page(runs);
  const std::string steps = page.Steps();
  return steps.empty() ? "" : PageOf(page.Title(), steps);
}

Status WriteReport(const std::string& path, const std::string& page) {
  // First, because it refuses pipes and devices, whose reading may never end.
  DDPRUN_ASSIGN(AtomicFile file, AtomicFile::Create(path));
  DDPRUN_ASSIGN(const std::optional<std::string> before, ReadFile(path));
  const std::string_view begin =
      std::string_view(kReportPage).substr(0, kReportPage.find("\n<meta"));
  if (before && !before->empty() && !before->starts_with(begin)) {
    return Error{.code = Code::kUsage,
                 .title = "NOT REPLACED",
                 .where = path,
                 .what = "\"" + path + "\" is there, and is no page of ddp-trainer report.",
                 .hint = "Name another file with --out.",
                 .page = "not-replaced"};
  }
  DDPRUN_TRY(file.Write(page));
  return file.Finish();
}

}  // namespace ddprun::trainer
