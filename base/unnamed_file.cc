#include "base/unnamed_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "base/atomic_file.h"

namespace ddprun {

std::string TemporaryFolder() {
  const char* const named = ::getenv("TMPDIR");
  return named == nullptr || *named == '\0' ? "/tmp" : named;
}

Result<UniqueFd> OpenUnnamedFile(const std::string& folder) {
  UniqueFd unnamed(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (unnamed.valid()) return unnamed;
  // For file systems without O_TMPFILE: a named file that is unlinked while it is empty.
  std::string path = folder + "/ddprun-XXXXXX";
  UniqueFd named(::mkostemp(path.data(), O_CLOEXEC));
  if (!named.valid()) return CannotWrite(folder, errno);
  ::unlink(path.c_str());
  return named;
}

}  // namespace ddprun
