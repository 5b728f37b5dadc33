// Files that appear whole or not at all, and the error of a file that cannot be written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

enum class Durability {
  kSynced,    // the file survives a crash of the machine; costs some milliseconds
  kUnsynced,  // the file survives the end of the process
};

// Returns "CANNOT WRITE A FILE" with the path, errno's text and a hint.
Error CannotWrite(const std::string& path, int error_number);

// Opens a file for appending, and creates it if there is none.
Result<UniqueFd> OpenToAppend(const std::string& path);

// Writes all bytes, with several calls of write() if needed. Returns 0 or errno.
int WriteBytes(int fd, std::string_view bytes);
// Writes all bytes. An error is CannotWrite() of `path`.
Status WriteAll(int fd, std::string_view bytes, const std::string& path);

// A file that is being written, beside the file that it will replace. Not thread-safe.
class AtomicFile {
 public:
  // Returns an error if `path` is a folder, a device or a pipe.
  static Result<AtomicFile> Create(std::string path);
  // Without Finish(), removes the new file; the old file does not change.
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;

  Status Write(std::string_view bytes);
  // Overwrites the first bytes of the file.
  Status RewriteBeginning(std::string_view bytes);
  // Renames the file to `path`. REQUIRES: called once.
  Status Finish(Durability durability = Durability::kSynced);

 private:
  AtomicFile(std::string path, std::string temporary, UniqueFd fd);

  std::string path_;
  std::string temporary_;  // "" after Finish() or a move
  UniqueFd fd_;
};

Status WriteFileAtomically(const std::string& path,
                           std::span<const std::string_view> parts,
                           Durability durability = Durability::kSynced);
Status WriteFileAtomically(const std::string& path,
                           std::string_view text,
                           Durability durability = Durability::kSynced);

// Syncs a folder, so that files that were made, renamed or removed in it stay so after a crash of
// the machine. "" means the working directory.
Status SyncFolder(const std::string& folder);

}  // namespace ddprun
