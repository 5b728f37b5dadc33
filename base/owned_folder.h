// The only code that replaces and removes folders. It removes only what ddprun wrote.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

// Returns whether ddprun wrote the entry `name` (relative to `folder`) and it is unchanged since.
using IsOwnEntry = bool (*)(const std::string& folder, const std::string& name);

// An IsOwnEntry for folders that AtomicFolder made: looks into the list that it left there.
bool IsListed(const std::string& folder, const std::string& name);

// Returns an error if the folder has an entry for which `is_own` is false.
Status CheckOnlyOwnEntries(const std::string& folder, IsOwnEntry is_own);

// Removes the folder. If CheckOnlyOwnEntries() returns an error, removes nothing and returns it.
Status RemoveOwnFolder(const std::string& folder, IsOwnEntry is_own);

// Removes a folder and all that is in it. REQUIRES: ddprun made it under a name that was free.
void RemoveNewFolder(const std::string& folder);

// Renames `written`, a folder of files, to `folder` in the same parent. An old folder of that name
// is removed if it has only ddprun's own files, else kept as "FOLDER.aside-K", which is returned.
// A crash of the machine leaves the whole old or new folder, if the file system can exchange names.
Result<std::string> PublishFolder(const std::string& written,
                                  const std::string& folder,
                                  IsOwnEntry is_own);

// A folder that is being written, beside the folder that it will replace. Not thread-safe.
class AtomicFolder {
 public:
  // Makes the folder under a free name, and missing parents. Removes folders of killed processes
  // that were to replace `folder`.
  static Result<AtomicFolder> Create(const std::string& folder);
  // Without Finish(), removes the new folder and parents; the old folder does not change.
  ~AtomicFolder();
  AtomicFolder(AtomicFolder&& other) noexcept;

  // The folder to write files to, until Finish().
  const std::string& path() const { return path_; }
  // Writes the list for IsListed() and calls PublishFolder(), whose result it returns.
  Result<std::string> Finish();

 private:
  AtomicFolder() = default;

  std::string folder_;
  std::string path_;                       // "" after Finish() or a move
  UniqueFd in_use_;                        // locks the folder until it has its name
  std::vector<std::string> made_parents_;  // outermost first
};

}  // namespace ddprun
