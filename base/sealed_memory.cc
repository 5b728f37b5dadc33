#include "base/sealed_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ddprun {

namespace {

constexpr unsigned kNoExecSeal = 8;  // MFD_NOEXEC_SEAL, which old headers lack

UniqueFd CreateMemory(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd file(::memfd_create(name, kFlags | kNoExecSeal));
  if (!file.valid() && errno == EINVAL) file = UniqueFd(::memfd_create(name, kFlags));
  return file;
}

// Opens the file of `file` again, with other access.
UniqueFd Reopen(const UniqueFd& file, int flags) {
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC));
}

}  // namespace

Result<UniqueFd> CreateSealedMemory(const char* name, off_t bytes, int seals) {
  UniqueFd file = CreateMemory(name);
  if (file.valid() && ::ftruncate(file.get(), bytes) == 0 &&
      ::fcntl(file.get(), F_ADD_SEALS, seals) == 0) {
    return file;
  }
  const int error_number = errno;
  Error error = SystemError("creating " + std::string(name) + " (memfd_create)", error_number);
  if (error_number == EFBIG) error.hint = "Its size counts for `ulimit -f`; lift this limit.";
  return error;
}

bool HasSeals(const UniqueFd& file, int seals) {
  const int found = ::fcntl(file.get(), F_GET_SEALS);
  return found >= 0 && (found & seals) == seals;
}

Result<UniqueFd> OpenSealedMemory(const std::string& path, int seals) {
  // O_PATH first, because really opening a device or a pipe has effects.
  const UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status = {};
  if (!found.valid() || ::fstat(found.get(), &status) != 0)
    return SystemError("opening " + path, errno);
  const bool plain = S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
  const UniqueFd readable = plain ? Reopen(found, O_RDONLY) : UniqueFd();
  if (!HasSeals(readable, seals)) return SystemError("using " + path + " as memory", EPERM);
  UniqueFd file = Reopen(readable, O_RDWR);
  if (!file.valid()) return SystemError("opening " + path, errno);
  return file;
}

}  // namespace ddprun
