#include "launcher/agent/nccl_report.h"

#include <filesystem>
#include <utility>

#include "launcher/nccl/nccl_dump.h"

namespace ddprun::launcher {

std::string NcclFolder(const WorkerRecord& worker) {
  // <folder>/<local_rank>/error.json
  return std::filesystem::path(worker.error_file).parent_path().parent_path();
}

NcclFinding ReadNcclFinding(const std::string& folder) {
  if (folder.empty()) return {};
  const NcclDumps read = ReadNcclDumps(folder);
  NcclFinding finding = ExplainNccl(read.dumps);
  finding.lines.insert(finding.lines.end(), read.unread.begin(), read.unread.end());
  return finding;
}

void AddNccl(NcclFinding finding, HangReport& report) {
  report.nccl = std::move(finding.lines);
  if (finding.ranks.empty() || !FindAwaited(report.activities).ranks.empty()) return;
  report.culprit = {.ranks = std::move(finding.ranks), .reason = std::move(finding.reason)};
}

}  // namespace ddprun::launcher
