// Unnamed memory (memfd) that processes pass on as a descriptor's number. A process in between may
// have closed the descriptor and opened another file under its number, to which ddprun must not
// write. The seals distinguish ddprun's memory from other files.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

// Lacks F_SEAL_GROW, because each rank sets the full size.
inline constexpr int kNodeMemorySeals = F_SEAL_SHRINK | F_SEAL_SEAL;
inline constexpr int kFlightRecorderSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Creates memory, close-on-exec. `name` is shown in /proc.
Result<UniqueFd> CreateSealedMemory(const char* name, off_t bytes, int seals);
// Returns whether `file` has at least these seals.
bool HasSeals(const UniqueFd& file, int seals);
// Opens `path`, which need not be trusted. Returns an error, and opens nothing for writing, unless
// it is memory of this user with these seals.
Result<UniqueFd> OpenSealedMemory(const std::string& path, int seals);

// Creates the memory that the ranks of one node share. It is empty; SharedRegion sets its size.
inline Result<UniqueFd> CreateNodeMemory() {
  return CreateSealedMemory("ddprun-node-memory", 0, kNodeMemorySeals);
}

}  // namespace ddprun
