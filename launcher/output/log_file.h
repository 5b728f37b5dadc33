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

// A new, empty file, or an existing one emptied, that is only ever appended to.
Result<UniqueFd> OpenLogFile(const std::string& path);

// Loop thread only, for which the writer's thread waits for the disk.
class LogFile {
 public:
  using Warn = std::function<void(const std::string& text)>;

  // `warn` gets a line when writing fails (the disk is full), once. The writer outlives the file.
  static Result<LogFile> Open(const std::string& path, FileWriter& writer, Warn warn);
  // Adds to the end of a file of ddprun's own log, --log_file; its folder is made.
  static Result<LogFile> OpenOwn(const std::string& path, FileWriter& writer, Warn warn);

  // What cannot be written is dropped; later writes are tried again.
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
