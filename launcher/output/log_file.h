// A file that gets a copy of workers' output, or ddprun's own lines.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/output/file_writer.h"

namespace ddprun::launcher {

// Opens a file for appending; creates it, or empties it if it exists.
Result<UniqueFd> OpenLogFile(const std::string& path);

// Use it on the loop thread only.
class LogFile {
 public:
  using Warn = std::function<void(const std::string& text)>;

  // `warn` gets one line, when writing fails first (the disk is full). `writer` must outlive this.
  static Result<LogFile> Open(const std::string& path, FileWriter& writer, Warn warn);
  // Opens --log_file, ddprun's own log, for appending. Makes its folder.
  static Result<LogFile> OpenLauncherLog(const std::string& path, FileWriter& writer, Warn warn);

  // If writing fails, these bytes are dropped, but later writes are tried.
  void Write(std::string_view bytes);
  FileWriter& writer() const { return *writer_; }

 private:
  static LogFile Make(const std::string& path, UniqueFd fd, FileWriter& writer, Warn warn);
  LogFile(UniqueFd fd, FileWriter& writer, FileWriter::Failed failed)
      : fd_(std::make_shared<UniqueFd>(std::move(fd))),
        writer_(&writer),
        failed_(std::move(failed)) {}

  std::shared_ptr<const UniqueFd> fd_;
  FileWriter* writer_;
  FileWriter::Failed failed_;
};

}  // namespace ddprun::launcher
