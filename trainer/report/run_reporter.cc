#include "trainer/report/run_reporter.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

namespace ddprun::trainer {

namespace {

// Steps over which rates are averaged: long enough to be calm, short enough to follow a change.
constexpr size_t kRateWindow = 20;

double Seconds(auto time_point) {
  return std::chrono::duration<double>(time_point.time_since_epoch()).count();
}

// Whether it has all been written; else errno says why not.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

ReportTime ReportTime::Now() {
  return {Seconds(std::chrono::system_clock::now()), Seconds(std::chrono::steady_clock::now())};
}

int ProgressBarFd(ProgressBarMode mode) {
  if (mode == ProgressBarMode::kOff) return -1;
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (::isatty(fd) == 1) return fd;
  }
  return mode == ProgressBarMode::kOn ? STDERR_FILENO : -1;
}

RunReporter::RunReporter(const ReporterOptions& options, std::optional<MetricsFile> metrics)
    : options_(options),
      metrics_(std::move(metrics)),
      bar_(options.bar_fd >= 0 ? std::make_unique<ProgressBar>(options.bar_fd) : nullptr),
      rate_(kRateWindow) {}

Result<std::unique_ptr<RunReporter>> RunReporter::Create(const ReporterOptions& options,
                                                         const RunHeader& header,
                                                         ReportTime now) {
  std::optional<MetricsFile> metrics;
  if (!options.metrics_path.empty()) {
    DDPRUN_ASSIGN(metrics, MetricsFile::Open(options.metrics_path));
    DDPRUN_TRY(metrics->Append(HeaderJson(header, now.unix_seconds)));
  }
  return std::unique_ptr<RunReporter>(new RunReporter(options, std::move(metrics)));
}

bool IsReported(int64_t step, int64_t max_steps, int64_t logging_steps) {
  return step == 1 || step == max_steps || step % logging_steps == 0;
}

void RunReporter::OnStep(const StepReport& report, ReportTime now) {
  last_ = report;
  if (report.predictions > 0) loss_.Add(report.loss);
  const int64_t amount = report.tokens > 0 ? report.tokens : report.samples;
  rate_.Add(static_cast<double>(amount), report.step_seconds);
  if (bar_) bar_->Update(State(), now.steady_seconds);
  if (!IsReported(report.step, report.max_steps, options_.logging_steps)) return;
  const double mean_loss = loss_.mean();
  loss_.Reset();
  Append(StepJson(report, mean_loss, now.unix_seconds));
  PrintLine(FormatLogLine({.step = report,
                           .mean_loss = mean_loss,
                           .per_second = rate_.per_second(),
                           .rate_is_tokens = report.tokens > 0,
                           .seconds_left = SecondsLeft()}));
}

void RunReporter::OnEval(const EvalReport& report, ReportTime now) {
  Append(EvalJson(report, now.unix_seconds));
  PrintLine(FormatEvalLine(report, last_.max_steps));
}

void RunReporter::OnBucketSizes(const BucketSizesReport& report, ReportTime now) {
  Append(BucketSizesJson(report, now.unix_seconds));
  PrintLine(FormatBucketSizesLine(report));
}

void RunReporter::PrintLine(std::string_view line) {
  if (bar_ && last_.step > 0 && last_.step >= last_.max_steps) {
    // The full bar stays above what follows.
    bar_->Finish(State());
    bar_.reset();
  }
  if (bar_) bar_->Clear();
  if (WriteAll(options_.line_fd, std::string(line) + "\n") || output_lost_) return;
  // No reason to end a training of days.
  output_lost_ = true;
  std::fprintf(stderr, "warning: standard output is lost (%s); the training goes on%s%s\n",
               ErrnoText(errno).c_str(), metrics_ ? ", its numbers are in " : "",
               metrics_ ? options_.metrics_path.c_str() : "");
}

void RunReporter::OnEnd(const RunEnd& end, ReportTime now) {
  if (bar_ && last_.step > 0) bar_->Finish(State());
  bar_.reset();
  Append(EndJson(end, now.unix_seconds));
}

// Metrics are no reason to end a training of days: the loss of some is said once.
void RunReporter::Append(const std::string& line) {
  if (!metrics_) return;
  const Status status = metrics_->Append(line);
  if (status.ok() || warned_) return;
  warned_ = true;
  PrintLine("warning: metrics are being lost from step " + std::to_string(last_.step) +
            " on: " + status.error().what);
}

ProgressState RunReporter::State() const {
  return {.step = last_.step,
          .max_steps = last_.max_steps,
          .loss = last_.loss,
          .per_second = rate_.per_second(),
          .rate_is_tokens = last_.tokens > 0,
          .seconds_left = SecondsLeft()};
}

double RunReporter::SecondsLeft() const {
  const int64_t steps = std::max<int64_t>(last_.max_steps - last_.step, 0);
  return rate_.seconds_each() * static_cast<double>(steps);
}

}  // namespace ddprun::trainer
