#include "launcher/output/log_file.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "base/whole_file.h"

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

Result<LogFile> LogFile::Open(const std::string& path, Warn warn) {
  DDPRUN_ASSIGN(UniqueFd fd, OpenLogFile(path));
  return LogFile(path, std::move(fd), std::move(warn));
}

void LogFile::Write(std::string_view bytes) {
  const int error = WriteBytes(fd_.get(), bytes);
  if (error == 0) return;
  if (const Warn warn = std::exchange(warn_, nullptr)) {
    warn("writing " + path_ + " failed, parts of it will be missing: " + ErrnoText(error));
  }
}

}  // namespace ddprun::launcher
