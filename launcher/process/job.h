// What belongs to one job on this node: its id and its private folder.
#pragma once

#include <string>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

// A random id; within another job's worker, that job's id, a slash and a random part, so that the
// outer job knows the inner one's processes as its own.
std::string MakeJobId(const Environment& env);

// A random UUID (version 4), torchrun's run id for --standalone.
std::string MakeUuid();

// A new folder in $TMPDIR or /tmp that only this user may enter, removed by the destructor. Its
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
