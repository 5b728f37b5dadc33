// A file that gets a copy of workers' output.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

// A new, empty file, or an existing one emptied, that is only ever appended to.
Result<UniqueFd> OpenLogFile(const std::string& path);

// Loop thread only.
class LogFile {
 public:
  using Warn = std::function<void(const std::string& text)>;

  // `warn` gets a line when writing fails (the disk is full), once.
  static Result<LogFile> Open(const std::string& path, Warn warn);

  // Waits for the disk. What cannot be written is dropped; later writes are tried again.
  void Write(std::string_view bytes);

 private:
  LogFile(std::string path, UniqueFd fd, Warn warn)
      : path_(std::move(path)), fd_(std::move(fd)), warn_(std::move(warn)) {}

  std::string path_;
  UniqueFd fd_;
  Warn warn_;  // empty once it has been said
};

}  // namespace ddprun::launcher
