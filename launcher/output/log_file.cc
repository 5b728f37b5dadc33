#include "launcher/output/log_file.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace ddprun::launcher {

Result<UniqueFd> OpenLogFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (fd.valid()) return fd;
  return Error{.title = "LOG FILE NOT WRITABLE",
               .where = path,
               .what = "Opening it failed: " + ErrnoText(errno) + ".",
               .hint = "Give --log_dir a folder that can be written to.",
               .page = "log-folder"};
}

Result<LogFile> LogFile::Open(const std::string& path, FileWriter& writer, Warn warn) {
  DDPRUN_ASSIGN(UniqueFd fd, OpenLogFile(path));
  return Make(path, std::move(fd), writer, std::move(warn));
}

Result<LogFile> LogFile::OpenLauncherLog(const std::string& path, FileWriter& writer, Warn warn) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (fd.valid()) return Make(path, std::move(fd), writer, std::move(warn));
  return Error{
      .code = Code::kUsage,
      .title = "LOG FILE",
      .where = path,
      .what = "The log cannot be written to " + path + ": " + ErrnoText(errno) + ".",
      .hint = "--log_file takes a file that can be written to, in a folder that can be made.",
      .page = "log-file"};
}

LogFile LogFile::Make(const std::string& path, UniqueFd fd, FileWriter& writer, Warn warn) {
  const auto once = std::make_shared<Warn>(std::move(warn));
  return LogFile(std::move(fd), writer, [path, once](int error) {
    if (const Warn say = std::exchange(*once, nullptr)) {
      say("writing " + path + " failed, parts of it will be missing: " + ErrnoText(error));
    }
  });
}

void LogFile::Write(std::string_view bytes) {
  writer_->Write(fd_, bytes, failed_);
}

}  // namespace ddprun::launcher
