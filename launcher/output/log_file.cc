#include "launcher/output/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
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

Result<LogFile> LogFile::Open(const std::string& path, Warn warn) {
  DDPRUN_ASSIGN(UniqueFd fd, OpenLogFile(path));
  return LogFile(path, std::move(fd), std::move(warn));
}

void LogFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const std::string why = ErrnoText(errno);
      if (const Warn warn = std::exchange(warn_, nullptr)) {
        warn("writing " + path_ + " failed, parts of it will be missing: " + why);
      }
      return;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace ddprun::launcher
