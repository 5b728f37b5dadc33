// The id and the private folder of one job on this node.
#pragma once

#include <string>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// Returns a random id. In a worker of another job, returns the other job's id, a slash and a random
// part, so that the outer job recognises the inner job's processes as its own.
std::string MakeJobId(const Environment& env);

// Returns a random UUID (version 4), which is torchrun's run id for --standalone.
std::string MakeUuid();

// A new folder in $TMPDIR or /tmp that only this user may enter. Its path is absolute and known
// before the folder is there, so that the process that removes it after a kill knows it in time.
class JobFolder {
 public:
  explicit JobFolder(const Environment& env);
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  ~JobFolder() { Remove(); }

  const std::string& path() const { return path_; }
  Status Create();
  // Does nothing if Create() has not made the folder.
  void Remove();

 private:
  std::string path_;
  bool made_ = false;
};

}  // namespace ddprun::launcher
