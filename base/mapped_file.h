// A regular file's bytes, mapped read-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace ddprun {

// Moving keeps the address of the bytes. The file must not shrink while mapped: reading past its
// new end kills the process (SIGBUS).
class MappedFile {
 public:
  // Error::what is the reason alone ("No such file or directory", "it is no regular file"), for
  // the caller to say which file of whose it was. Never waits, not even for a pipe.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Empty for an empty file, which cannot be mapped.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace ddprun
