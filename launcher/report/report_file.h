// --report_file: where it is and how it is written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ddprun::launcher {

// What --report_file names for this node: %n is the node's rank, %h its host, %% a percent sign.
// With several nodes a name without %n or %h gets ".node<rank>" before its extension, because the
// nodes may share the folder. A node that never had a rank is told apart by its host and pid.
std::string ReportPath(std::string_view pattern,
                       std::optional<int> node_rank,
                       const std::string& host,
                       bool several_nodes);

// Whether `path` could be written, found out by making a file beside it; for before a job starts.
// kUsage, page "report-file", otherwise.
Status CheckReportFile(const std::string& path);

// Whole or not at all: written aside, then renamed. What is there already and is no regular file
// (/dev/stdout, a pipe) is written to.
Status WriteReportFile(const std::string& path, std::string_view text);

}  // namespace ddprun::launcher
