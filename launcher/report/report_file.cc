#include "launcher/report/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/unique_fd.h"

namespace ddprun::launcher {

namespace {

std::string AsidePath(const std::string& path) {
  return path + "." + std::to_string(::getpid()) + ".tmp";
}

Error Unwritable(const std::string& path, int error_number) {
  return Error{
      .code = Code::kUsage,
      .title = "REPORT FILE",
      .where = path,
      .what = "The report cannot be written to " + path + ": " + ErrnoText(error_number) + ".",
      .hint = "--report_file takes a file in a folder that exists and can be written to.",
      .page = "report-file"};
}

bool IsSpecial(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

Status WriteAll(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Unwritable(path, errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<UniqueFd> Open(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0666));
  if (!fd.valid()) return Unwritable(path, errno);
  return fd;
}

}  // namespace

std::string ReportPath(std::string_view pattern,
                       int node_rank,
                       const std::string& host,
                       bool several_nodes) {
  std::string path;
  bool distinct = !several_nodes;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'n') path += std::to_string(node_rank);
    if (next == 'h') path += host;
    if (next == '%') path += '%';
    distinct = distinct || next == 'n' || next == 'h';
    if (next == 'n' || next == 'h' || next == '%') {
      ++i;
    } else {
      path += pattern[i];
    }
  }
  if (distinct || path.starts_with("/dev/")) return path;
  const size_t name = path.rfind('/') + 1;  // 0 without a folder
  const size_t dot = path.rfind('.');
  const size_t end = dot == std::string::npos || dot <= name ? path.size() : dot;
  return path.insert(end, ".node" + std::to_string(node_rank));
}

Status CheckReportFile(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return Unwritable(path, EISDIR);
  }
  // A pipe would wait for its reader.
  if (IsSpecial(path)) {
    return ::access(path.c_str(), W_OK) == 0 ? Status() : Unwritable(path, errno);
  }
  const std::string aside = AsidePath(path);
  const UniqueFd fd(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid()) return Unwritable(path, errno);
  ::unlink(aside.c_str());
  return {};
}

Status WriteReportFile(const std::string& path, std::string_view text) {
  if (IsSpecial(path)) {
    // Never wait for a reader: the job is over.
    DDPRUN_ASSIGN(const UniqueFd fd, Open(path, O_NONBLOCK | O_APPEND));
    return WriteAll(fd.get(), text, path);
  }
  const std::string aside = AsidePath(path);
  DDPRUN_ASSIGN(const UniqueFd fd, Open(aside, O_CREAT | O_TRUNC));
  Status written = WriteAll(fd.get(), text, path);
  if (written.ok() && std::rename(aside.c_str(), path.c_str()) != 0) {
    written = Unwritable(path, errno);
  }
  if (!written.ok()) ::unlink(aside.c_str());
  return written;
}

}  // namespace ddprun::launcher
