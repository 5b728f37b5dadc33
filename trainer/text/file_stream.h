// Reads the bytes of a data file in parts: decompressed if gzip compressed them, as text if they
// are a table in Parquet. LibTorch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/failure.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "trainer/text/byte_decoder.h"

namespace ddprun::trainer {

// Error::what has only the reason ("Permission denied", "its gzip data is cut off at byte 4096"),
// because the caller adds the file's name. Error::hint is for special cases. Not thread-safe.
class FileStream {
 public:
  // Opens a file. Never waits, not even for a pipe, because only regular files are allowed.
  // Decompresses a file that begins like gzip's (1f 8b 08), whatever its name. `parquet_as` says
  // how a Parquet file (PAR1) is read: "jsonl" or, as a table with a header, the delimiter; ""
  // refuses it.
  static Result<FileStream> Open(const std::string& path, const std::string& parquet_as = "");

  FileStream(FileStream&&) noexcept;
  FileStream& operator=(FileStream&&) noexcept;
  ~FileStream();

  // Fills all of `to`, or less at the end of the file. Returns how much; 0 means the end.
  Result<size_t> Read(char* to, size_t size);

  bool decoded() const { return decoder_ != nullptr; }  // bytes read are not those of the file
  int64_t file_size() const { return file_size_; }      // in bytes, when it was opened
  int64_t file_bytes_read() const;                      // of file_size(), before decoding

 private:
  FileStream(UniqueFd fd, int64_t file_size);

  UniqueFd fd_;
  int64_t file_size_;
  int64_t plain_bytes_read_ = 0;
  std::unique_ptr<ByteDecoder> decoder_;
};

// Returns the error "DATA FILE CANNOT BE READ": the system refused, the path is not a regular file,
// or its gzip data is damaged. `hint` says what to do in special cases.
Failure UnreadableFile(const std::string& path,
                       const std::string& reason,
                       const std::string& hint = "",
                       Code code = Code::kFailed);

// Returns the error "DATA FILE CANNOT BE READ" for a file in UTF-16 (IsUtf16 in utf8.h).
Failure Utf16File(const std::string& path);

}  // namespace ddprun::trainer
