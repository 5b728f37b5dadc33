// What the readers of data files share: finding and reading files, and refusing them.
// LibTorch-free.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/failure.h"

namespace ddprun::trainer {

// The files of all patterns (ExpandGlob), in the patterns' order; one that is matched twice, also
// under another spelling, comes once. Throws Failure.
std::vector<std::string> ExpandFiles(const std::vector<std::string>& patterns);

// All bytes of a regular file, followed by `padding` zero bytes that are not in its size. Throws
// Failure.
struct FileBytes {
  std::string storage;
  size_t size = 0;
  std::string_view text() const { return {storage.data(), size}; }
};
FileBytes ReadDataFile(const std::string& path, size_t padding = 0);

// "DATA FILE CANNOT BE READ": the system refused, or nothing regular stands there.
Failure UnreadableFile(const std::string& path, const std::string& reason);

// "WRONG DATA FILE": the file was read, and `found` is not what its format asks for. `found` is a
// sentence that says what was found and what was expected.
Failure WrongDataFile(const std::string& path, const std::string& found, const std::string& hint);

}  // namespace ddprun::trainer
