// The path of --report_file, and how it is written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ddprun::launcher {

// Returns this node's path: %n is the node's rank, %h its host, %% a percent sign. With several
// nodes, a pattern without %n and %h gets ".node<rank>" before its extension, because nodes may
// share the folder. A node that never had a rank uses its host and pid instead.
std::string ReportPath(std::string_view pattern,
                       std::optional<int> node_rank,
                       const std::string& host,
                       bool several_nodes);

// Called before a job starts. Returns kUsage, page "report-file", if `path` cannot be written;
// tries it with a temporary file in the same folder.
Status CheckReportFile(const std::string& path);

// Writes the file whole or not at all (WriteFileAtomically). Writes directly to a path that exists
// and is not a regular file (/dev/stdout, a pipe), without waiting for a reader.
Status WriteReportFile(const std::string& path, std::string_view text);

}  // namespace ddprun::launcher
