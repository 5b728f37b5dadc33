// Shell patterns to files, with ** for any number of folders (glob(3) has no **). LibTorch-free.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

// The files that a pattern stands for, sorted by name, at least one. * ? [...] match within a
// name, ** any number of folders, none included; names that begin with a dot must be asked for
// with a dot, and ** does not follow links to folders. A path that exists is taken as it is,
// whatever characters it has. Folders that match are passed over, but a plain path to one is an
// error.
Result<std::vector<std::string>> ExpandGlob(std::string_view pattern);

}  // namespace ddprun::trainer
