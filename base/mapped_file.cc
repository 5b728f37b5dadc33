#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace ddprun {

namespace {

Error Reason(const std::string& reason) {
  return {.title = "FILE CANNOT BE READ", .what = reason};
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe would wait for its writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return Reason(ErrnoText(errno));
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return Reason(ErrnoText(errno));
  if (!S_ISREG(status.st_mode)) return Reason("it is no regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return MappedFile({});
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) return Reason(ErrnoText(errno));
  return MappedFile({static_cast<const std::byte*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ddprun
