#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/failure.h"
#include "base/read_file.h"
#include "base/text.h"
#include "trainer/worker/check_job.h"

namespace ddprun::trainer {

namespace {

struct CheckFlags {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 1;
  int nodes = 1;
  std::string runs;
};

using Runs = std::vector<std::vector<std::string>>;

constexpr size_t kMostSaid = 20;  // users do not read more problems

Runs ReadRuns(const std::string& path) {
  if (path.empty()) return {{}};
  try {
    Runs runs = nlohmann::json::parse(ReadIfReadable(path).value_or("")).get<Runs>();
    if (!runs.empty()) return runs;
  } catch (const nlohmann::json::exception&) {  // the error follows below
  }
  throw Failure(Error{.code = Code::kUsage,
                      .title = "BAD LIST OF RUNS",
                      .where = path,
                      .what = "A list of runs was expected, each a list of overrides as after "
                              "--set: [[\"run.seed=1\"], [\"run.seed=2\"]]",
                      .page = "bad-list-of-runs"});
}

// Texts in the order of their first Add(), each with its runs.
class Said {
 public:
  void Add(const std::string& text, size_t run) {
    auto found = std::ranges::find(texts_, text, &Text::text);
    if (found == texts_.end()) found = texts_.insert(found, {text, {}});
    if (found->runs.empty() || found->runs.back() != run) found->runs.push_back(run);
  }

  // Adds to each text the runs to which it belongs, unless these are all, and `end`.
  std::string Write(const Runs& runs, size_t most, const std::string& end = "") const {
    std::string all;
    for (size_t i = 0; i < std::min(texts_.size(), most); ++i) {
      all += texts_[i].text;
      if (texts_[i].runs.size() < runs.size()) all += Where(texts_[i].runs, runs);
      all += end;
    }
    if (texts_.size() > most) {
      all += "... and " + std::to_string(texts_.size() - most) + " more\n";
    }
    return all;
  }
  size_t size() const { return texts_.size(); }

 private:
  static std::string Where(const std::vector<size_t>& concerned, const Runs& runs) {
    std::string text = "In run " + std::to_string(concerned.front() + 1) + " of " +
                       std::to_string(runs.size()) + ": " +
                       FormatList(runs[concerned.front()], " ");
    if (concerned.size() > 1) {
      text += "; and in " + CountText(std::ssize(concerned) - 1, "more run");
    }
    return text + "\n";
  }

  struct Text {
    std::string text;
    std::vector<size_t> runs;
  };
  std::vector<Text> texts_;
};

// Adds the errors of `problem` one by one, because each may belong to other runs.
void AddEach(Error problem, size_t run, Said& said) {
  const std::vector<Error> others = std::exchange(problem.more, {});
  said.Add(Render(problem), run);
  for (const Error& other : others) AddEach(other, run, said);
}

int Check(const CheckFlags& flags, const Environment& environment) {
  const Runs runs = ReadRuns(flags.runs);
  JobChecker checker(flags.config,
                     {.world_size = flags.ranks * flags.nodes, .local_world_size = flags.ranks},
                     environment);
  Said problems, warnings, facts;
  int status = 0;
  size_t hidden = 0;  // of the run that has most, because runs mostly have the same mistakes
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<std::string> overrides = flags.overrides;
    overrides.insert(overrides.end(), runs[i].begin(), runs[i].end());
    const CheckedJob found = checker.Check(overrides);
    for (const Error& problem : found.problems) {
      if (status == 0) status = ExitStatus(problem.code);
      AddEach(problem, i, problems);
      hidden = std::max(hidden, problem.hidden);
    }
    for (const std::string& warning : found.warnings) warnings.Add("warning: " + warning + "\n", i);
    for (const std::string& fact : found.facts) facts.Add("  " + fact + "\n", i);
  }
  std::fputs(problems.Write(runs, kMostSaid, "\n").c_str(), stderr);
  std::fputs(warnings.Write(runs, kMostSaid).c_str(), stderr);
  const std::string what = flags.config +
                           (runs.size() == 1 ? "" : ", " + CountText(std::ssize(runs), "run")) +
                           ", for " + CountText(int64_t{flags.ranks} * flags.nodes, "rank") + ": ";
  if (status != 0) {
    const auto count = static_cast<int64_t>(problems.size() + hidden);
    std::fputs((what + CountText(count, "problem") + "\n").c_str(), stderr);
  } else {
    std::fputs((what + "no problem found\n" + facts.Write(runs, kMostSaid)).c_str(), stdout);
  }
  return status;
}

}  // namespace

void AddCheckCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<CheckFlags>();
  CLI::App* command = app.add_subcommand(
      "check", "Say what is wrong with a config, its files and its needs, and train nothing");
  command->add_option("config", flags->config, "JSON config file")->required();
  command->add_option("--set", flags->overrides, "Override a key: --set run.seed=1")
      ->expected(1)
      ->take_all();
  command->add_option("--nproc_per_node", flags->ranks, "Ranks on this machine")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--nnodes", flags->nodes, "Machines")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--runs", flags->runs,
                      "JSON file with a list of runs, each a list of overrides: checks them all");
  command->callback([&chosen, flags] {
    chosen = [flags](const Environment& environment) { return Check(*flags, environment); };
  });
}

}  // namespace ddprun::trainer
