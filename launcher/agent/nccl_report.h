// Reads the dumps of NCCL's groups that the workers of an attempt have left, for its reports.
#pragma once

#include <string>

#include "launcher/hang/hang_report.h"
#include "launcher/nccl/nccl_finding.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// Returns the attempt's folder, in which the dumps are. "" means that it has none.
std::string NcclFolder(const WorkerRecord& worker);

// Returns what the dumps say that are there now. Takes some milliseconds for each.
NcclFinding ReadNcclFinding(const std::string& folder);

// Adds the finding to the report of a hang. The ranks that it names are the culprits, unless what
// ddprun has seen itself is certain: a stopped process, a rank missing in ddprun's own collectives.
void AddNccl(NcclFinding finding, HangReport& report);

}  // namespace ddprun::launcher
