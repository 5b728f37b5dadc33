// Files that are written whole or not at all. LibTorch-free.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ddprun::trainer {

// Writes the parts one after the other to a temporary file beside `path`, syncs it, and renames
// it: after a crash `path` holds either its old bytes or all of the new ones.
Status WriteWholeFile(const std::string& path, std::span<const std::string_view> parts);

}  // namespace ddprun::trainer
