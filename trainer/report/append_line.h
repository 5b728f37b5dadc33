// Appends lines to a file, each of them completely or not at all.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ddprun::trainer {

// Appends a line, with its newline, to the file that `fd` appends to. If it fails (a full disk),
// the file's length is restored, so that the next line begins a new line. Error: that of
// WriteAll(), with `path`.
Status AppendLine(int fd, std::string_view line, const std::string& path);

}  // namespace ddprun::trainer
