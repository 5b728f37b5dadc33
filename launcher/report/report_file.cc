#include "launcher/report/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/atomic_file.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

namespace {

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

}  // namespace

std::string ReportPath(std::string_view pattern,
                       std::optional<int> node_rank,
                       const std::string& host,
                       bool several_nodes) {
  // A rank could be another node's, so a node without rank needs another unique name.
  const std::string name = node_rank ? std::to_string(*node_rank)
                                     : "unranked-" + host + "-" + std::to_string(::getpid());
  std::string path;
  bool distinct = !several_nodes;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'n') path += name;
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
  const size_t base = path.rfind('/') + 1;  // 0 without a folder
  const size_t dot = path.rfind('.');
  const size_t end = dot == std::string::npos || dot <= base ? path.size() : dot;
  return path.insert(end, (node_rank ? ".node" : ".") + name);
}

Status CheckReportFile(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return Unwritable(path, EISDIR);
  }
  // Not opened, because opening a pipe waits for its reader.
  if (IsSpecial(path)) {
    return ::access(path.c_str(), W_OK) == 0 ? Status() : Unwritable(path, errno);
  }
  const std::string aside = path + "." + std::to_string(::getpid()) + ".tmp";
  const UniqueFd fd(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid()) return Unwritable(path, errno);
  ::unlink(aside.c_str());
  return {};
}

Status WriteReportFile(const std::string& path, std::string_view text) {
  if (!IsSpecial(path)) return WriteFileAtomically(path, text, Durability::kUnsynced);
  // O_NONBLOCK, because the job has ended and must not wait for a reader.
  const UniqueFd fd(::open(path.c_str(), O_NONBLOCK | O_APPEND | O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return CannotWrite(path, errno);
  return WriteAll(fd.get(), text, path);
}

}  // namespace ddprun::launcher
