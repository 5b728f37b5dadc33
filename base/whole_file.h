// Files that appear whole or not at all, and one text for what is in the way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

// What a file that was written survives.
enum class Durability {
  kSynced,    // a crash of the machine; costs some milliseconds
  kUnsynced,  // the end of the process
};

// "CANNOT WRITE A FILE": the path, errno's text and what to do about it.
Error CannotWrite(const std::string& path, int error_number);

// A file to whose end lines are added; where there is none, an empty one is made.
Result<UniqueFd> OpenToAppend(const std::string& path);

// All of the bytes, however few the system takes at a time. 0, or the errno of what was in the way.
int WriteBytes(int fd, std::string_view bytes);
// The same with a message about `path`.
Status WriteAll(int fd, std::string_view bytes, const std::string& path);

// A file in the making, beside the one that it will replace. Not thread-safe.
class WholeFile {
 public:
  // An error, too, where something else than a regular file has the name.
  static Result<WholeFile> Create(std::string path);
  // Without Finish(): nothing is left, and what stood under the name is as it was.
  ~WholeFile();
  WholeFile(WholeFile&& other) noexcept;

  Status Write(std::string_view bytes);
  // Over bytes that were written: those from the beginning of the file.
  Status RewriteBeginning(std::string_view bytes);
  // Gives the file its name.
  Status Finish(Durability durability = Durability::kSynced);

 private:
  WholeFile(std::string path, std::string temporary, UniqueFd fd);

  std::string path_;
  std::string temporary_;  // empty once there is nothing to remove
  UniqueFd fd_;
};

Status WriteWholeFile(const std::string& path,
                      std::span<const std::string_view> parts,
                      Durability durability = Durability::kSynced);
Status WriteWholeFile(const std::string& path,
                      std::string_view text,
                      Durability durability = Durability::kSynced);

// What has been made, renamed or removed in a folder survives a crash of the machine. "" is the
// working directory.
Status SyncFolder(const std::string& folder);

}  // namespace ddprun
