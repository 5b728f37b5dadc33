// A file on disk that disappears with its processes.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

// Returns the folder for temporary files: $TMPDIR, or /tmp.
std::string TemporaryFolder();

// Creates an empty file for reading and writing on the file system of `folder`. It has no name, so
// the system frees it after the last descriptor and mapping, even if the processes are killed.
Result<UniqueFd> OpenUnnamedFile(const std::string& folder);

}  // namespace ddprun
