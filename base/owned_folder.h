// The one place that replaces and removes folders: nothing goes that ddprun did not write.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

// Whether ddprun wrote the entry `name` (relative) of this folder, and nobody changed it since.
using IsOwn = bool (*)(const std::string& folder, const std::string& name);

// Of a folder that WholeFolder made: what is in the list that it left there, and is as it was then.
bool IsListed(const std::string& folder, const std::string& name);

// An error unless the folder is not there, is empty, or has nothing but what is ddprun's own.
Status CheckOwn(const std::string& folder, IsOwn is_own);

// Removes the folder; where CheckOwn finds fault, nothing of it.
Status RemoveOwn(const std::string& folder, IsOwn is_own);

// Removes a folder that this job made under a name that nobody had, with all that is in it.
void RemoveMade(const std::string& folder);

// Gives `written`, a folder of files beside `folder`, that name. A folder of that name is removed
// if all of it is ddprun's own; else it is kept as "FOLDER.aside-K", which is returned ("": none
// was). Synced: after a crash the one or the other is there, whole.
Result<std::string> PublishFolder(const std::string& written,
                                  const std::string& folder,
                                  IsOwn is_own);

// A folder in the making, beside the one that it will replace. Not thread-safe.
class WholeFolder {
 public:
  // Makes it under a name that nothing had, with the parents that are missing. What processes that
  // were killed have left of folders for this name is removed.
  static Result<WholeFolder> Create(const std::string& folder);
  // Without Finish(): nothing is left, and what stood under the name is as it was.
  ~WholeFolder();
  WholeFolder(WholeFolder&& other) noexcept;

  // Where it is until then.
  const std::string& path() const { return path_; }
  // Leaves the list for IsListed() in it and gives it its name; returns what PublishFolder does.
  Result<std::string> Finish();

 private:
  WholeFolder() = default;

  std::string folder_;
  std::string path_;                       // empty once there is nothing to remove
  UniqueFd in_use_;                        // locks the folder until it has its name
  std::vector<std::string> made_parents_;  // the outermost first
};

}  // namespace ddprun
