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

std::string StepsOf(const std::vector<RunHistory>& runs) {
  std::string page = StepPage(runs);
  if (!page.empty()) return page;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "NO MEASURED STEP",
                      .where = "trace.json",
                      .what = "None of these runs has a trace of a step.",
                      .hint = "Train with --set report.trace_steps=[20,22].",
                      .page = "no-measured-step"});
}

struct PageCommand {
  const char* name;
  const char* text;
  std::string (*page)(const std::vector<RunHistory>& runs);
};

void Add(CLI::App& app, Command& chosen, const PageCommand& what) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand(what.name, what.text);
  const std::string file = std::string(what.name) + ".html";
  command->add_option("runs", flags->runs, "Run folders; runs may be under way")->required();
  command->add_option("--out", flags->out, "The page (default: " + file + " in the first folder)");
  const auto write = [flags, what, file](const Environment&) {
    std::vector<RunHistory> runs;
    for (const std::string& run : flags->runs) runs.push_back(ValueOrThrow(ReadRunHistory(run)));
    const std::string out = flags->out.empty() ? flags->runs.front() + "/" + file : flags->out;
    ThrowIfError(WriteReport(out, what.page(runs)));
    std::printf("%s: %s\n", what.name, out.c_str());
    return 0;
  };
  command->callback([&chosen, write] { chosen = write; });
}

}  // namespace

void AddReportCommand(CLI::App& app, Command& chosen) {
  Add(app, chosen, {"report", "Write a page about runs, for a browser", HtmlReport});
  Add(app, chosen, {"picture", "Write a page with a measured step of runs alone", StepsOf});
}

}  // namespace ddprun::trainer
