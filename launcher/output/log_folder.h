// Where the log and error files of a job's workers go, as torchrun lays them out:
// <log_dir>/<run_id>_<8 random>/attempt_<n>/<local_rank>/{stdout.log,stderr.log,error.json}
#pragma once

#include <string>

#include "base/result.h"

namespace ddprun::launcher {

class LogFolder {
 public:
  // A new folder of its own in `log_dir`, which is made if it is not there. "/dev/null": no files
  // at all. Fails when it cannot be written to.
  static Result<LogFolder> Create(const std::string& log_dir, const std::string& run_id);
  // Without a --log_dir: a folder that the caller has made, and removes if it does.
  static LogFolder In(std::string folder) { return LogFolder(std::move(folder)); }

  // Empty: no files at all.
  const std::string& path() const { return path_; }
  // Makes the folders of all local ranks and returns the attempt's; empty: no files at all. An
  // earlier attempt of the same number, before the nodes regrouped, keeps its files: the later
  // one is called attempt_<n>.2 and so on.
  Result<std::string> MakeAttempt(int number, int local_world_size) const;

 private:
  explicit LogFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace ddprun::launcher
