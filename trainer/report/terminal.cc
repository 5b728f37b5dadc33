#include "trainer/report/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/terminal.h"
#include "base/text.h"
#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

// Steps over which rates are averaged: enough to be steady, few enough to follow a change.
constexpr size_t kRateWindow = 20;

std::string PadLeft(std::string text, size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string StepText(int64_t step, int64_t max_steps) {
  const std::string last = std::to_string(max_steps);
  return "step " + PadLeft(std::to_string(step), last.size()) + "/" + last;
}

// A part of a line. Parts with the highest `rank` are left out first, parts with 0 never.
struct LinePart {
  std::string text;
  int rank = 0;
};

std::string JoinWithin(size_t width, std::vector<LinePart> parts) {
  while (true) {
    std::string line;
    for (const LinePart& part : parts) line += part.text;
    const auto least = std::ranges::max_element(parts, {}, &LinePart::rank);
    if (line.size() <= width || least->rank == 0) return line;
    parts.erase(least);
  }
}

// Returns the room of a line on a terminal; files have room for all.
size_t LineWidth(int fd) {
  return ::isatty(fd) == 1 ? TerminalColumns(fd) : std::numeric_limits<size_t>::max();
}

}  // namespace

std::string FormatLogLine(const StepReport& step, const ProgressState& state, size_t width) {
  const auto percent = [](double share) {
    return PadLeft(std::to_string(std::lround(100 * std::min(share, 1.0))), 2) + "%";
  };
  std::vector<LinePart> parts = {{StepText(step.step, step.max_steps), 0},
                                 {"  loss " + PadLeft(LossText(step.mean_loss), 7), 0},
                                 {"  lr " + Exponent(step.learning_rate), 3},
                                 {"  grad norm " + PadLeft(ShortNumber(step.grad_norm), 5), 4}};
  if (step.loss_scale > 0) {
    parts.push_back({"  scale " + PadLeft(ShortNumber(step.loss_scale), 5), 5});
  }
  parts.push_back({"  " + PadLeft(ShortNumber(state.per_second), 5) +
                       (state.rate_is_tokens ? " tokens/s" : " samples/s"),
                   1});
  if (step.step_seconds > 0 && step.exposed_comm_seconds >= 0) {
    const double share = step.exposed_comm_seconds / step.step_seconds;
    parts.push_back({"  exposed comm " + percent(share), 6});
  }
  if (step.pipeline_bubble >= 0) parts.push_back({"  bubble " + percent(step.pipeline_bubble), 6});
  if (step.max_memory_allocated >= 0) {
    parts.push_back({"  memory " + ByteText(static_cast<double>(step.max_memory_allocated)), 5});
  }
  if (state.seconds_left >= 0) parts.push_back({"  left " + Duration(state.seconds_left), 2});
  return JoinWithin(width, std::move(parts));
}

std::string FormatEvalLine(const EvalReport& report, int64_t max_steps, const char* split) {
  std::string text = StepText(report.step, max_steps);
  text += "  " + std::string(split) + " loss " + LossText(report.loss);
  for (const auto& [name, value] : report.metrics) text += "  " + name + " " + LossText(value);
  text += "  (" + CountText(report.samples, "sample") + " in " + Duration(report.seconds) + ")";
  return text;
}

std::string FormatBucketSizesLine(const BucketSizesReport& report) {
  const auto number = [](const char* format, double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), format, value);
    return std::string(text.data());
  };
  const BucketSizesReport::Trial& best = report.trials.at(report.chosen);
  const std::string cap = number("%g", best.bucket_cap_mb);
  const std::string first = number("%g", best.first_bucket_mb);
  return "bucket sizes: the fastest of " + std::to_string(report.trials.size()) +
         " is bucket_cap_mb " + cap + ", first_bucket_mb " + first + ": " +
         number("%.2f ms", best.seconds * 1e3) + " against " +
         number("%.2f ms", report.trials.at(0).seconds * 1e3) +
         " with the default; keep it: --set strategy.bucket_cap_mb=" + cap +
         " --set strategy.first_bucket_mb=" + first;
}

std::string FormatDeviceMemoryLine(const DeviceMemoryReport::Device& device, size_t index) {
  const auto text = [](int64_t bytes) { return ByteText(static_cast<double>(bytes)); };
  return "device " + std::to_string(index) + " (" + device.name +
         "): " + CountText(device.samples, "sample") + ", " + text(device.total()) + ": model " +
         text(device.model) + ", gradients " + text(device.gradients) + ", optimizer " +
         text(device.optimizer) + ", batch " + text(device.batch) + ", outputs " +
         text(device.outputs) +
         (device.gathered.empty() ? "" : ", gathered [" + FormatList(device.gathered) + "]");
}

int ProgressBarFd(ProgressBarMode mode, const Environment& environment) {
  if (mode == ProgressBarMode::kOff) return -1;
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (IsTerminal(fd, environment)) return fd;
  }
  return mode == ProgressBarMode::kOn ? STDERR_FILENO : -1;
}

Terminal::Terminal(const TerminalOptions& options)
    : options_(options),
      bar_(options.bar_fd >= 0 ? std::make_unique<ProgressBar>(options.bar_fd) : nullptr),
      rate_(kRateWindow) {}

void Terminal::OnStep(const StepReport& report, ReportTime now) {
  last_ = report;
  const int64_t amount = report.tokens > 0 ? report.tokens : report.samples;
  rate_.Add(static_cast<double>(amount), report.step_seconds);
  const ProgressState state = State();
  if (bar_) bar_->Update(state, now.steady_seconds);
  if (report.reported) OnNote(FormatLogLine(report, state, LineWidth(options_.line_fd)));
}

void Terminal::OnEval(const EvalReport& report, ReportTime /*now*/) {
  OnNote(FormatEvalLine(report, last_.max_steps, "validation"));
}

void Terminal::OnTest(const EvalReport& report, ReportTime /*now*/) {
  OnNote(FormatEvalLine(report, std::max(report.step, last_.max_steps), "test"));
}

void Terminal::OnCheckpoint(const CheckpointReport& report, ReportTime /*now*/) {
  const std::string step = "checkpoint of step " + std::to_string(report.step);
  if (!report.error.empty()) return OnNote("warning: no " + step + ": " + report.error);
  OnNote(step + ": " + report.path + " (" + ByteText(static_cast<double>(report.bytes)) + " in " +
         Duration(report.seconds) + ")");
}

void Terminal::OnDeviceMemory(const DeviceMemoryReport& report, ReportTime /*now*/) {
  for (size_t i = 0; i < report.devices.size(); ++i) {
    OnNote(FormatDeviceMemoryLine(report.devices[i], i));
  }
}

void Terminal::OnBucketSizes(const BucketSizesReport& report, ReportTime /*now*/) {
  OnNote(FormatBucketSizesLine(report));
}

void Terminal::OnNote(std::string_view line) {
  if (bar_ && last_.step > 0 && last_.step >= last_.max_steps) {
    // Leaves the full bar above the lines that follow.
    bar_->Finish(State());
    bar_.reset();
  }
  if (bar_) bar_->Clear();
  const int error_number = WriteBytes(options_.line_fd, std::string(line) + "\n");
  if (error_number == 0 || output_lost_) return;
  // Warns and continues, because this must not end a training of days.
  output_lost_ = true;
  const bool elsewhere = !options_.numbers_in.empty();
  std::fprintf(stderr, "warning: standard output is lost (%s); the training goes on%s%s\n",
               ErrnoText(error_number).c_str(), elsewhere ? ", its numbers are in " : "",
               options_.numbers_in.c_str());
}

void Terminal::OnEnd(const RunEnd& /*end*/, ReportTime /*now*/) {
  if (bar_ && last_.step > 0) bar_->Finish(State());
  bar_.reset();
}

ProgressState Terminal::State() const {
  const int64_t steps = std::max<int64_t>(last_.max_steps - last_.step, 0);
  return {.step = last_.step,
          .max_steps = last_.max_steps,
          .loss = last_.loss,
          .per_second = rate_.per_second(),
          .rate_is_tokens = last_.tokens > 0,
          .seconds_left = rate_.seconds_each() * static_cast<double>(steps)};
}

}  // namespace ddprun::trainer
