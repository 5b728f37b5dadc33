// Unnamed memory (memfd) that processes hand on as the number of a descriptor. A process in between
// may have closed that descriptor and opened another file under its number, which must not be
// written to: no file of anybody else carries these seals.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

// Each rank gives it its full size, so it may grow.
inline constexpr int kNodeMemorySeals = F_SEAL_SHRINK | F_SEAL_SEAL;
inline constexpr int kFlightRecorderSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// `name` is for people who look at /proc. Close-on-exec.
Result<UniqueFd> CreateSealedMemory(const char* name, off_t bytes, int seals);
// The kernel may have added seals of its own.
bool HasSeals(const UniqueFd& file, int seals);
// A path that anybody may have written. Whatever else than such memory of this user stands there is
// not opened for writing.
Result<UniqueFd> OpenSealedMemory(const std::string& path, int seals);

// Of the ranks of one node. Empty; SharedRegion gives it its size.
inline Result<UniqueFd> CreateNodeMemory() {
  return CreateSealedMemory("ddprun-node-memory", 0, kNodeMemorySeals);
}

}  // namespace ddprun
