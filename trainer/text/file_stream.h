// The bytes of a data file, decompressed where gzip compressed them, as much as is asked for at a
// time. LibTorch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/failure.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::trainer {

// Errors are those of one file: Error::what is the reason alone ("Permission denied", "its gzip
// data is cut off at byte 4096"), for the caller to say which file of whose it was; Error::hint
// says what to do where that is special. Not thread-safe.
class FileStream {
 public:
  // Never waits, not even for a pipe: what is no regular file is an error. A file that begins as
  // gzip's do (1f 8b 08) is decompressed, whatever its name.
  static Result<FileStream> Open(const std::string& path);

  FileStream(FileStream&&) noexcept;
  FileStream& operator=(FileStream&&) noexcept;
  ~FileStream();

  // Fills all of `to` unless the end comes before; returns how much. 0: the end.
  Result<size_t> Read(char* to, size_t size);

  bool compressed() const { return gunzip_ != nullptr; }
  int64_t file_size() const { return file_size_; }  // bytes, as it stood when it was opened
  int64_t file_bytes_read() const;                  // of file_size(), before they are decompressed

 private:
  class Gunzip;
  FileStream(UniqueFd fd, int64_t file_size);

  UniqueFd fd_;
  int64_t file_size_;
  int64_t plain_bytes_read_ = 0;
  std::unique_ptr<Gunzip> gunzip_;
};

// "DATA FILE CANNOT BE READ": the system refused, nothing regular stands there, or what gzip made
// is damaged. `hint` says what to do where that is special.
Failure UnreadableFile(const std::string& path,
                       const std::string& reason,
                       const std::string& hint = "",
                       Code code = Code::kFailed);

// The same for a file of which IsUtf16 (utf8.h) is true.
Failure Utf16File(const std::string& path);

}  // namespace ddprun::trainer
