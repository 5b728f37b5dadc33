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

// A new folder in $TMPDIR or /tmp that only this user may enter. The destructor removes it. Its
// path is absolute.
class JobFolder {
 public:
  static Result<JobFolder> Create(const Environment& env);
  JobFolder(JobFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  JobFolder& operator=(JobFolder&&) = delete;
  ~JobFolder();

  const std::string& path() const { return path_; }

 private:
  explicit JobFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace ddprun::launcher
