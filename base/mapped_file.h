// A regular file's bytes, mapped read-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace ddprun {

// Moving keeps the address of the bytes. The file must not shrink while it is mapped, because
// reading past its new end kills the process (SIGBUS).
class MappedFile {
 public:
  // Error::what has only the reason ("No such file or directory"), so the caller adds the path.
  // Never waits, not even for a pipe.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Returns an empty span if the file is empty.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace ddprun
