#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/failure.h"
#include "trainer/report/html_report.h"
#include "trainer/report/run_history.h"

namespace ddprun::trainer {

namespace {

struct ReportFlags {
  std::vector<std::string> runs;
  std::string out;
};

int Report(const ReportFlags& flags) {
  std::vector<RunHistory> runs;
  for (const std::string& folder : flags.runs) runs.push_back(ValueOrThrow(ReadRunHistory(folder)));
  const std::string out = flags.out.empty() ? flags.runs.front() + "/report.html" : flags.out;
  ThrowIfError(WriteReport(out, HtmlReport(runs)));
  std::printf("report: %s\n", out.c_str());
  return 0;
}

}  // namespace

void AddReportCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand("report", "Write a page about runs, for a browser");
  command->add_option("runs", flags->runs, "Run folders; runs may be under way")->required();
  command->add_option("--out", flags->out, "The page (default: report.html in the first folder)");
  command->callback(
      [&chosen, flags] { chosen = [flags](const Environment&) { return Report(*flags); }; });
}

}  // namespace ddprun::trainer
