// A page about one or several runs, for a browser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trainer/report/run_history.h"

namespace ddprun::trainer {

// report_page.html
extern const std::string_view kReportPage;

// Returns a page that loads no other file: the curves of all runs in common charts, and for each
// run its times, memory, events and config. All text of a run is text on the page. Pure.
std::string HtmlReport(const std::vector<RunHistory>& runs);

// Returns a page with a measured step of each run alone (report.trace_steps), or "" if none has
// one.
std::string StepPage(const std::vector<RunHistory>& runs);

// Writes such a page whole or not at all. Error: `path` has something else than such
// a page, or cannot be written.
Status WriteReport(const std::string& path, const std::string& page);

}  // namespace ddprun::trainer
