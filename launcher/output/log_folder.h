// The folder of the log and error files of a job's workers, in torchrun's layout:
// <log_dir>/<run_id>_<8 random>/attempt_<n>/<local_rank>/{stdout.log,stderr.log,error.json}
#pragma once

#include <string>

#include "base/result.h"

namespace ddprun::launcher {

class LogFolder {
 public:
  // Makes a new folder in `log_dir`, which is made, too. "/dev/null" means no files.
  static Result<LogFolder> Create(const std::string& log_dir, const std::string& run_id);
  // Uses `folder`, which the caller has made and removes.
  static LogFolder In(std::string folder) { return LogFolder(std::move(folder)); }

  // "" means no files.
  const std::string& path() const { return path_; }
  // Makes the folders of all local ranks and returns the attempt's folder; "" means no files. If
  // attempt_<n> exists, because the nodes have regrouped since, it makes attempt_<n>.2 and so on.
  Result<std::string> MakeAttempt(int number, int local_world_size) const;

 private:
  explicit LogFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace ddprun::launcher
