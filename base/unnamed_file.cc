#include "base/unnamed_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "base/whole_file.h"

namespace ddprun {

Result<UniqueFd> OpenUnnamedFile(const std::string& folder) {
  UniqueFd unnamed(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (unnamed.valid()) return unnamed;
  // Not every file system has such files: one that loses its name before anything is in it.
  std::string path = folder + "/ddprun-XXXXXX";
  UniqueFd named(::mkostemp(path.data(), O_CLOEXEC));
  if (!named.valid()) return CannotWrite(folder, errno);
  ::unlink(path.c_str());
  return named;
}

}  // namespace ddprun
