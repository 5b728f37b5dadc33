// Lines at the end of a file, each of which is there whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ddprun::trainer {

// Adds a line, with its newline, to the file that `fd` appends to. After an error (a full disk) the
// file ends where it ended: the next line begins a line of its own. Error: as WriteAll, of `path`.
Status AppendLine(int fd, std::string_view line, const std::string& path);

}  // namespace ddprun::trainer
