// Reads files whole.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace ddprun {

// Returns the bytes of a file; nullopt if there is none. The error is SystemError() of its path. A
// stream would take a read error for the end of the file, or throw std::ios_base::failure.
Result<std::optional<std::string>> ReadFile(const std::string& path);

// Returns the bytes of a file; nullopt if there is none, or none that can be read.
std::optional<std::string> ReadIfReadable(const std::string& path);

}  // namespace ddprun
