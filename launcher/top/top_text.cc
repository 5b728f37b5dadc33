#include "launcher/top/top_text.h"

#include <array>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace ddprun::launcher {

namespace {

using nlohmann::json;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using Time = std::chrono::steady_clock::time_point;

template <typename... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// Returns "1:02:03".
std::string ClockText(int64_t seconds) {
  return Format("%lld:%02lld:%02lld", static_cast<long long>(seconds / 3600),
                static_cast<long long>(seconds / 60 % 60), static_cast<long long>(seconds % 60));
}

// Cuts the text to `columns` characters of UTF-8; 0 means not at all.
std::string Cut(const std::string& text, size_t columns) {
  size_t count = 0;
  for (size_t i = 0; columns > 0 && i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && count++ == columns) return text.substr(0, i);
  }
  return text;
}

// Returns " 4.6 s" if the time is long enough to be of interest.
std::string For(std::optional<Time> since, Time now) {
  if (!since || now - *since < std::chrono::seconds(1)) return "";
  return " " + SecondsText(duration_cast<milliseconds>(now - *since));
}

std::string CollectiveText(const RecordedCollective& collective) {
  std::string text(NameOf(collective.kind));
  if (collective.kind != CollectiveKind::kReceiveFromAny) {
    text += " " + std::to_string(collective.number);
  }
  if (collective.bucket >= 0) text += ", bucket " + std::to_string(collective.bucket);
  if (collective.bytes > 0) {
    text +=
        ", " +
        FormatBytes(static_cast<int64_t>(std::min<uint64_t>(collective.bytes, uint64_t{1} << 62)));
  }
  return text;
}

std::string PhaseText(const FlightSnapshot& flight, Time now) {
  const std::string time = For(flight.step_phase_began, now);
  if (flight.step_phase == StepPhase::kData) return "waits" + time + " for data";
  if (flight.step_phase == StepPhase::kSave) return "saves" + time;
  if (flight.step_phase == StepPhase::kEvaluate) return "evaluates" + time;
  switch (flight.phase) {
    case WorkerPhase::kStarting:
      return "starts";
    case WorkerPhase::kEvaluating:
      return "evaluates";
    case WorkerPhase::kFinishing:
      return "finishes";
    default:
      break;
  }
  switch (flight.step_phase) {
    case StepPhase::kForward:
      return "computes forward" + time;
    case StepPhase::kBackward:
      return "computes backward" + time;
    case StepPhase::kUpdate:
      return "updates the weights" + time;
    case StepPhase::kBetween:
      return "between two steps" + time;
    default:
      return "trains";
  }
}

std::string PlaceText(const ProcessPlace& place) {
  if (place.state == 'R') return "runs";
  const std::string where = place.where.empty() ? "sleeps" : "in " + place.where;
  return place.state == 'D' ? "cannot be interrupted, " + where : where;
}

const RankSample* FirstWithRun(const JobSample& job) {
  for (const RankSample& rank : job.ranks) {
    if (rank.worker.flight && rank.worker.flight->run) return &rank;
  }
  return nullptr;
}

// Returns "step 350 of 2500  loss 1.8909  412 samples/s  0:12:01 left  1 restart  runs/toy".
std::string ProgressLine(const JobSample& job) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : "  ") + part;
  };
  if (const RankSample* const rank = FirstWithRun(job)) {
    const FlightSnapshot& flight = *rank->worker.flight;
    const RunProgress& run = *flight.run;
    add("step " + std::to_string(flight.step) + " of " + std::to_string(run.total_steps));
    if (run.step_seconds > 0) {
      add(Format("loss %.4f", run.loss));
      add(Format(run.samples_per_second < 10 ? "%.2f samples/s" : "%.0f samples/s",
                 run.samples_per_second));
      const double left = run.step_seconds * (static_cast<double>(run.total_steps) -
                                              static_cast<double>(flight.step) + 1);
      if (left >= 0 && left < 1e9) add(ClockText(static_cast<int64_t>(left)) + " left");
    }
  }
  const auto here = static_cast<int64_t>(job.ranks.size());
  add(here > 0 && job.world_size > here
          ? std::to_string(here) + " of " + CountText(job.world_size, "rank") + " here"
          : CountText(here, "rank"));
  if (job.restarts > 0) add(CountText(job.restarts, "restart"));
  if (!job.slurm_job.empty()) add("SLURM job " + MakePrintable(job.slurm_job));
  add(job.folder);
  return text;
}

std::string RankLine(const RankSample& rank, Time now) {
  const WorkerActivity& worker = rank.worker;
  const bool lives = worker.pid != 0;
  const int64_t step = worker.flight ? worker.flight->step : 0;
  return Format("%5s %8s %8s %5s %9s  ",
                worker.rank >= 0 ? std::to_string(worker.rank).c_str() : "?",
                lives ? std::to_string(worker.pid).c_str() : "-",
                step > 0 ? std::to_string(step).c_str() : "-",
                lives ? Format("%.0f%%", rank.cpu_share * 100).c_str() : "-",
                lives ? FormatBytes(rank.memory).c_str() : "-") +
         DoingText(rank, now);
}

std::string AwaitedLine(const JobSample& job) {
  if (job.awaited.ranks.empty()) return "";
  return "the others wait for " + RankList(job.awaited.ranks) +
         (job.awaited.ranks.size() > 1 ? ", each of which " : ", which ") + job.awaited.reason;
}

std::vector<std::string> LinesOf(const JobSample& job) {
  std::vector<std::string> lines = {
      std::to_string(job.agent) + "  " + job.user + "  " + ClockText(job.lifetime.count()) + "  " +
          job.command,
  };
  if (job.ranks.empty()) {
    lines.emplace_back("  no workers now: they start, restart, or the other nodes have not come");
    return lines;
  }
  lines.push_back("  " + ProgressLine(job));
  if (const std::string line = AwaitedLine(job); !line.empty()) lines.push_back("  " + line);
  lines.push_back(
      Format("%5s %8s %8s %5s %9s  %s", "RANK", "PID", "STEP", "CPU", "MEMORY", "DOES"));
  for (const RankSample& rank : job.ranks) lines.push_back(RankLine(rank, job.now));
  return lines;
}

json NumberOrNull(double number) {
  return std::isfinite(number) ? json(number) : json();
}

double SecondsSince(std::optional<Time> since, Time now) {
  return since ? std::chrono::duration<double>(now - *since).count() : 0;
}

json RankJson(const RankSample& rank, Time now) {
  const WorkerActivity& worker = rank.worker;
  json value = {{"rank", worker.rank >= 0 ? json(worker.rank) : json()},
                {"local_rank", worker.local_rank},
                {"pid", worker.pid != 0 ? json(worker.pid) : json()},
                {"state", std::string(1, worker.place.state)},
                {"cpu_seconds", std::chrono::duration<double>(rank.cpu_time).count()},
                {"cpu_share", rank.cpu_share},
                {"memory_bytes", rank.memory},
                {"does", DoingText(rank, now)}};
  if (!worker.flight) return value;
  value["step"] = worker.flight->step;
  if (const RecordedCollective* wait = LongestWait(*worker.flight)) {
    value["waits"] = {{"in", NameOf(wait->kind)},
                      {"number", wait->number},
                      {"bucket", wait->bucket >= 0 ? json(wait->bucket) : json()},
                      {"bytes", wait->bytes},
                      {"seconds", SecondsSince(wait->started, now)}};
  }
  return value;
}

json JobJson(const JobSample& job) {
  json value = {{"pid", job.agent},
                {"user", job.user},
                {"command", job.command},
                {"run_folder", job.folder.empty() ? json() : json(job.folder)},
                {"slurm_job", job.slurm_job.empty() ? json() : json(job.slurm_job)},
                {"seconds", job.lifetime.count()},
                {"world_size", job.world_size > 0 ? json(job.world_size) : json()},
                {"restarts", job.restarts},
                {"ranks", json::array()}};
  if (const RankSample* const rank = FirstWithRun(job)) {
    const RunProgress& run = *rank->worker.flight->run;
    const bool reported = run.step_seconds > 0;
    value["total_steps"] = run.total_steps;
    value["loss"] = reported ? NumberOrNull(run.loss) : json();
    value["samples_per_second"] = reported ? NumberOrNull(run.samples_per_second) : json();
  }
  if (!job.awaited.ranks.empty()) {
    value["awaited"] = {{"ranks", job.awaited.ranks}, {"reason", job.awaited.reason}};
  }
  for (const RankSample& rank : job.ranks) value["ranks"].push_back(RankJson(rank, job.now));
  return value;
}

}  // namespace

std::string DoingText(const RankSample& rank, Time now) {
  const WorkerActivity& worker = rank.worker;
  if (worker.pid == 0) return worker.flight ? "has ended" : "has not begun, or has ended";
  if (worker.place.state == 'T') return "is stopped by a signal";
  if (worker.place.state == 't') return "is held by a debugger";
  if (!worker.flight) return PlaceText(worker.place);
  if (const RecordedCollective* wait = LongestWait(*worker.flight)) {
    return "waits" + For(wait->started, now) + " in " + CollectiveText(*wait);
  }
  return PhaseText(*worker.flight, now);
}

std::string TopText(const TopSample& sample, const TopStyle& style) {
  std::string text = style.title.empty() ? "" : Cut(style.title, style.columns) + "\n";
  for (const JobSample& job : sample.jobs) {
    if (!text.empty()) text += "\n";
    bool first = true;
    for (const std::string& line : LinesOf(job)) {
      const std::string cut = Cut(line, style.columns);
      text += first && style.bold ? "\033[1m" + cut + "\033[0m\n" : cut + "\n";
      first = false;
    }
  }
  if (sample.jobs.empty()) text += "No job of ddprun runs here that you may see.\n";
  if (sample.unreadable.empty()) return text;
  std::vector<std::string> names;
  for (const auto& [agent, user] : sample.unreadable) {
    names.push_back(std::to_string(agent) + " of " + user);
  }
  return text + "\n" +
         Cut("Not shown, because you may not read them: " + FormatList(names), style.columns) +
         "\n";
}

std::string TopJson(const TopSample& sample) {
  json value = {{"jobs", json::array()}, {"unreadable", json::array()}};
  for (const JobSample& job : sample.jobs) value["jobs"].push_back(JobJson(job));
  for (const auto& [agent, user] : sample.unreadable) {
    value["unreadable"].push_back({{"pid", agent}, {"user", user}});
  }
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
