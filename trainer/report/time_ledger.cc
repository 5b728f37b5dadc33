#include "trainer/report/time_ledger.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "trainer/report/append_line.h"
#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

using LedgerJson = nlohmann::ordered_json;

constexpr double kWorthALine = 60;  // seconds

double Get(const LedgerJson& line, const char* key) {
  const auto value = line.find(key);
  return value != line.end() && value->is_number() ? value->get<double>() : 0;
}

}  // namespace

void TimeLedger::OnBegin(const RunHeader& header, ReportTime now) {
  began_ = now.unix_seconds - idle_;
  double idle_before = 0;
  std::ifstream file(path_, std::ios::binary);
  for (std::string text; std::getline(file, text);) {
    const bool validation = continues_file_ && text.find(R"("split":"validation")") != text.npos;
    if (!validation && text.find(R"("event":)") == text.npos) continue;
    const LedgerJson line = LedgerJson::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object()) continue;
    if (validation) spent_.evaluation += Get(line, "seconds");
    const std::string event = line.value("event", "");
    if (event == "start" && starts_++ == 1) began_ = Get(line, "ts");
    const bool later = !continues_file_ && line.value("step", int64_t{0}) > header.resumed_step;
    if (event != "ledger" || later) continue;
    idle_before = Get(line, "idle_seconds");
    spent_ = {.useful = Get(line, "useful_seconds"),
              .data = Get(line, "data_seconds"),
              .ranks = Get(line, "ranks_seconds"),
              .saving = Get(line, "saving_seconds"),
              .evaluation = Get(line, "evaluation_seconds")};
  }
  if (continues_file_) --starts_;  // because the lines include this start's own
  // Ignores an error, because MetricsFile reports it for its own lines.
  if (auto opened = OpenToAppend(path_)) fd_ = *std::move(opened);
  const bool idle = idle_ > 0;
  idle_ = std::max(idle_, 0.0) + idle_before;
  began_ += idle_;
  // Writes a line now, because the next start may not find a line of a save.
  if (idle) Write(header.resumed_step, spent_, now);
}

void TimeLedger::OnStep(const StepReport& report, ReportTime /*now*/) {
  if (std::exchange(continues_file_, false)) {
    const double known = spent_.useful + spent_.data + spent_.ranks + spent_.saving;
    spent_.useful += std::max(report.run_seconds - report.step_seconds - known, 0.0);
  }
  const double exposed = std::max(report.exposed_comm_seconds, 0.0);
  const double waited = report.data_seconds + exposed;
  spent_.data += report.data_seconds;
  spent_.ranks += exposed;
  spent_.useful += std::max(report.step_seconds - waited, 0.0);
}

void TimeLedger::OnSave(int64_t step, ReportTime /*now*/) {
  // A save that never gets a result was of an earlier step.
  while (saves_.size() > 1) saves_.pop_front();
  saves_.emplace_back(step, spent_);
}

void TimeLedger::OnEval(const EvalReport& report, ReportTime /*now*/) {
  spent_.evaluation += report.seconds;
}

void TimeLedger::OnTest(const EvalReport& report, ReportTime now) {
  OnEval(report, now);
}

void TimeLedger::OnCheckpoint(const CheckpointReport& report, ReportTime now) {
  // Subtracts the stall from useful time, because it was a part of the steps.
  spent_.saving += report.stall_seconds;
  spent_.useful -= report.stall_seconds;
  while (!saves_.empty() && saves_.front().first < report.step) saves_.pop_front();
  if (!report.error.empty() || saves_.empty() || saves_.front().first != report.step) return;
  Write(report.step, saves_.front().second, now);
}

void TimeLedger::OnEnd(const RunEnd& end, ReportTime now) {
  Write(end.step, spent_, now);
  const double wall = now.unix_seconds - began_;
  if (wall < kWorthALine) return;
  std::array<char, 64> share;
  std::snprintf(share.data(), share.size(), "%.1f %% of ", 100 * spent_.useful / wall);
  terminal_.OnNote("time: training " + std::string(share.data()) + Duration(wall) +
                   "; waiting for data " + Duration(spent_.data) + ", for ranks " +
                   Duration(spent_.ranks) + ", saving " + Duration(spent_.saving) +
                   ", validation " + Duration(spent_.evaluation) +
                   ", starts, redone steps and the rest " + Duration(LostSeconds(spent_, wall)));
}

double TimeLedger::LostSeconds(const Seconds& spent, double wall) const {
  const double known = spent.useful + spent.data + spent.ranks + spent.saving + spent.evaluation;
  return std::max(wall - known, 0.0);
}

void TimeLedger::Write(int64_t step, const Seconds& spent, ReportTime now) {
  const double wall = std::max(now.unix_seconds - began_, 0.0);
  const LedgerJson line = {{"ts", now.unix_seconds},
                           {"event", "ledger"},
                           {"step", step},
                           {"starts", starts_},
                           {"wall_seconds", wall},
                           {"idle_seconds", idle_},
                           {"useful_seconds", spent.useful},
                           {"data_seconds", spent.data},
                           {"ranks_seconds", spent.ranks},
                           {"saving_seconds", spent.saving},
                           {"evaluation_seconds", spent.evaluation},
                           {"lost_seconds", LostSeconds(spent, wall)},
                           {"goodput", wall > 0 ? spent.useful / wall : 0}};
  (void)AppendLine(fd_.get(), line.dump() + "\n", path_);
}

}  // namespace ddprun::trainer
