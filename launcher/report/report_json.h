// Pure: how a job ended on this node, for programs. docs/report_file.md describes every field.
#pragma once

#include <string>

#include "launcher/report/job_end.h"

namespace ddprun::launcher {

// JSON, indented, ending in a newline. Bytes that are no UTF-8 are replaced.
std::string RenderReportJson(const JobEnd& end);

}  // namespace ddprun::launcher
