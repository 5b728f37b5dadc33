#include "trainer/report/timeline_picture.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/line_chart.h"
#include "base/text.h"

namespace ddprun::trainer {

namespace {

using Kind = StepTimeline::Kind;
using Span = StepTimeline::Span;

constexpr double kWidth = 960;
constexpr double kLeft = 64;  // room for "rank 12"
constexpr double kRight = 8;
constexpr double kPhaseHeight = 20;
constexpr double kOtherHeight = 12;
constexpr double kGap = 8;  // between ranks
constexpr double kBottom = 24;

constexpr std::string_view kCommunication = "#56b4e9";
constexpr std::string_view kOther = "#cc79a7";
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kColors = {
    {{"wait for data", "#d55e00"},
     {"forward", "#0072b2"},
     {"backward", "#e69f00"},
     {"update", "#009e73"},
     {"between steps", "#767676"}}};

std::string_view ColorOf(const Span& span) {
  if (span.kind != Kind::kPhase) return kCommunication;
  const auto color = std::ranges::find(kColors, span.name, &decltype(kColors)::value_type::first);
  return color == kColors.end() ? kOther : color->second;
}

// Returns ` name="value"`.
std::string Attribute(std::string_view name, double value) {
  return " " + std::string(name) + "=\"" + FiveDigits(value) + "\"";
}

class Picture {
 public:
  explicit Picture(const StepTimeline& timeline) : timeline_(timeline) {
    std::vector<bool> has_phases(timeline.rows.size());
    for (const Span& span : timeline.spans) {
      if (span.kind == Kind::kPhase) has_phases[span.row] = true;
    }
    for (size_t i = 0; i < timeline.rows.size(); ++i) {
      if (i > 0 && timeline.rows[i].rank != timeline.rows[i - 1].rank) bottom_ += kGap;
      const double height = has_phases[i] ? kPhaseHeight : kOtherHeight;
      rows_.push_back({bottom_, height});
      bottom_ += height + 2;
    }
  }

  std::string Svg() const {
    std::string svg = "<svg class=\"steps\" viewBox=\"0 0 " + FiveDigits(kWidth) + " " +
                      FiveDigits(bottom_ + kBottom) +
                      "\" role=\"img\" aria-label=\"one step of each rank\">\n";
    for (size_t i = 0; i < rows_.size(); ++i) {
      const int rank = timeline_.rows[i].rank;
      if (i > 0 && timeline_.rows[i - 1].rank == rank) continue;
      svg += Text(kLeft - 8, rows_[i].top + 14, "end", "rank " + std::to_string(rank));
    }
    for (const Span& span : timeline_.spans) svg += Box(span);
    return svg + Axis() + "</svg>";
  }

 private:
  struct Place {
    double top = 0;
    double height = 0;
  };

  double X(double milliseconds) const {
    return kLeft + (kWidth - kLeft - kRight) * milliseconds / timeline_.milliseconds;
  }

  static std::string Text(double x, double y, std::string_view anchor, const std::string& text) {
    return "<text" + Attribute("x", x) + Attribute("y", y) + " text-anchor=\"" +
           std::string(anchor) + "\">" + EscapeHtml(text) + "</text>\n";
  }

  std::string Rectangle(const Span& span, double begin, double end, bool faint) const {
    const Place& row = rows_[span.row];
    // A span of a moment stays visible.
    const double width = std::max(X(end) - X(begin), 0.7);
    return "<rect" + Attribute("x", X(begin)) + Attribute("y", row.top) +
           Attribute("width", width) + Attribute("height", row.height) + " fill=\"" +
           std::string(ColorOf(span)) + "\"" + (faint ? " opacity=\"0.35\"" : "") + "/>";
  }

  std::string Box(const Span& span) const {
    std::string text = timeline_.rows[span.row].name + ": " + span.name;
    if (!span.of.empty()) text += ", " + span.of;
    text += ", " + FiveDigits(span.end - span.begin) + " ms from " + FiveDigits(span.begin) + " ms";
    if (span.waited > 0) text += ", of them " + FiveDigits(span.waited) + " ms waiting for ranks";
    std::string boxes;
    const double moves = span.begin + span.waited;
    if (span.waited > 0) boxes += Rectangle(span, span.begin, moves, /*faint=*/true);
    if (moves < span.end || span.waited == 0) boxes += Rectangle(span, moves, span.end, false);
    return "<g><title>" + EscapeHtml(text) + "</title>" + boxes + "</g>\n";
  }

  std::string Axis() const {
    std::string axis;
    for (const double at : ChartTicks(0, timeline_.milliseconds)) {
      axis += "<line" + Attribute("x1", X(at)) + Attribute("x2", X(at)) + Attribute("y1", 0) +
              Attribute("y2", bottom_) + "/>\n";
      axis += Text(X(at), bottom_ + 16, at > 0 ? "middle" : "start", FiveDigits(at) + " ms");
    }
    return axis;
  }

  const StepTimeline& timeline_;
  std::vector<Place> rows_;
  double bottom_ = 4;
};

std::string Legend(const StepTimeline& timeline) {
  std::string legend;
  const auto add = [&legend](std::string_view color, std::string_view text) {
    legend +=
        "<i style=\"background:" + std::string(color) + "\"></i>" + std::string(text) + " \u00a0 ";
  };
  const auto has = [&timeline](const auto& wanted) {
    return std::ranges::any_of(timeline.spans, wanted);
  };
  for (const auto& color : kColors) {
    if (has([&](const Span& span) { return span.name == color.first; })) {
      add(color.second, color.first);
    }
  }
  if (has([](const Span& span) { return ColorOf(span) == kOther; })) add(kOther, "other parts");
  if (has([](const Span& span) { return span.kind != Kind::kPhase; })) {
    add(kCommunication, "communication (pale: waiting for other ranks)");
  }
  if (timeline.ranks_left_out > 0) {
    legend += CountText(timeline.ranks_left_out, "further rank") + " not shown";
  }
  return legend;
}

}  // namespace

std::string TimelinePicture(const StepTimeline& timeline) {
  if (timeline.spans.empty()) return "";
  const std::string title =
      timeline.step > 0 ? "step " + std::to_string(timeline.step) : std::string("a traced step");
  return "<figure><h3>" + title + "</h3><div class=\"wide\">" + Picture(timeline).Svg() +
         "</div><figcaption>" + Legend(timeline) + "</figcaption></figure>\n";
}

}  // namespace ddprun::trainer
