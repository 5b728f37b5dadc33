// Jobs in simulated time. DDPRUN_SIMULATION_SEEDS="FIRST:END" runs other seeds than the usual ones;
// one seed alone, "SEED", also prints what happened.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "tests/launcher/agent/simulated_job.h"

namespace ddprun::launcher {
namespace {

constexpr uint64_t kUsualSeeds = 1000;
// Some cells matter in one job of a thousand; which jobs those are differs by compiler.
constexpr uint64_t kMostSeeds = 10 * kUsualSeeds;

struct Seeds {
  uint64_t first = 0;
  uint64_t end = kUsualSeeds;
};

Seeds SeedsToRun() {
  const std::string text = Environment::OfProcess().GetOr("DDPRUN_SIMULATION_SEEDS", "");
  if (text.empty()) return {};
  const size_t colon = text.find(':');
  const auto first = static_cast<uint64_t>(ParseInt(text.substr(0, colon)).value());
  if (colon == std::string::npos) return {first, first + 1};
  return {first, static_cast<uint64_t>(ParseInt(text.substr(colon + 1)).value())};
}

std::string Lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "  " + line + "\n";
  return text;
}

TEST(AgentSimulation, KeepsAllPromisesWhateverHappens) {
  const Seeds seeds = SeedsToRun();
  for (uint64_t seed = seeds.first; seed < seeds.end; ++seed) {
    const SimulatedEnd end = RunSimulatedJob(seed);
    if (seeds.end - seeds.first == 1) std::fputs(Lines(end.trace).c_str(), stderr);
    ASSERT_TRUE(end.violations.empty())
        << "DDPRUN_SIMULATION_SEEDS=" << seed << " runs this job again:\n"
        << Lines(end.violations) << "What happened:\n"
        << Lines(end.trace) << "On the screen:\n"
        << end.screen;
  }
}

TEST(AgentSimulation, GivesTheSameRunForTheSameSeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(RunSimulatedJob(seed).trace, RunSimulatedJob(seed).trace) << "seed " << seed;
  }
}

// The simulation itself: does it see that a table does nothing where it should do something?
template <typename Table, typename Run>
void ExpectFound(const Table& table, const std::set<std::pair<size_t, size_t>>& rare, Run run) {
  for (size_t phase = 0; phase < table.rows.size(); ++phase) {
    for (size_t event = 0; event < table.rows[phase].size(); ++event) {
      Table forgetful = table;
      auto& cell = forgetful.rows[phase][event];
      if (cell.action == Table::Action::kNone || rare.contains({phase, event})) continue;
      cell = {static_cast<typename Table::Phase>(phase), Table::Action::kNone};
      uint64_t seed = 0;
      while (seed < kMostSeeds && run(seed, forgetful).violations.empty()) ++seed;
      EXPECT_LT(seed, kMostSeeds) << "phase " << phase << ", event " << event;
    }
  }
}

template <typename Phase, typename Event>
std::pair<size_t, size_t> Cell(Phase phase, Event event) {
  return {static_cast<size_t>(phase), static_cast<size_t>(event)};
}

TEST(AgentSimulation, FindsAForgottenCellOfTheAgentsTable) {
  std::set<std::pair<size_t, size_t>> rare = {
      Cell(AgentPhase::kJoining, AgentEvent::kRestartAsked)};
  // Nobody is in a hurry who has not asked for the end before.
  for (const AgentPhase phase : {AgentPhase::kJoining, AgentPhase::kRunning, AgentPhase::kLeaving,
                                 AgentPhase::kRestarting}) {
    rare.insert(Cell(phase, AgentEvent::kKillAsked));
  }
  ExpectFound(kAgentTable, rare,
              [](uint64_t seed, const AgentTable& table) { return RunSimulatedJob(seed, table); });
}

TEST(AgentSimulation, FindsAForgottenCellOfTheGroupsTable) {
  const std::set<std::pair<size_t, size_t>> rare = {
      Cell(GroupPhase::kKilling, GroupEvent::kStarted),
      Cell(GroupPhase::kKilling, GroupEvent::kGraceOver)};
  ExpectFound(kGroupTable, rare, [](uint64_t seed, const GroupTable& table) {
    return RunSimulatedJob(seed, kAgentTable, table);
  });
}

}  // namespace
}  // namespace ddprun::launcher
