// A file on the disk that no process can leave behind.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

// Empty, to be read and written, on the file system of `folder`. It has no name, so it goes with
// the last descriptor and mapping, however its processes end.
Result<UniqueFd> OpenUnnamedFile(const std::string& folder);

}  // namespace ddprun
