#include "trainer/state/weights_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ddprun::trainer {

namespace {

Failure Unreadable(const std::string& path, const std::string& reason) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "WEIGHTS FILE CANNOT BE READ",
                       .where = path,
                       .what = "\"" + path + "\" cannot be read: " + reason + ".",
                       .hint = "Correct the path, or its permissions.",
                       .page = "unreadable-weights"});
}

}  // namespace

WeightsBytes::WeightsBytes(std::string path, const char* format)
    : path_(std::move(path)), format_(format) {
  // O_NONBLOCK: opening a pipe would wait for its writer.
  fd_ = std::make_shared<const UniqueFd>(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!fd_->valid() || ::fstat(fd_->get(), &status) != 0) throw Unreadable(path_, ErrnoText(errno));
  if (!S_ISREG(status.st_mode)) throw Unreadable(path_, "it is no regular file");
  size_ = static_cast<int64_t>(status.st_size);
}

void WeightsBytes::Read(void* target, size_t bytes, int64_t offset) const {
  auto* at = static_cast<char*>(target);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_->get(), at, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Unreadable(path_, ErrnoText(errno));
    if (got == 0) throw Broken("it became shorter while it was read");
    at += got;
    offset += got;
    bytes -= static_cast<size_t>(got);
  }
}

Failure WeightsBytes::Broken(const std::string& what, const std::string& hint) const {
  const char* again = "Copy or download it again; it may have been cut short.";
  return Failure(Error{.code = Code::kDamaged,
                       .title = "BROKEN WEIGHTS FILE",
                       .where = path_,
                       .what = "\"" + path_ + "\" is no valid " + format_ + ": " + what + ".",
                       .hint = hint.empty() ? again : hint,
                       .page = "broken-weights"});
}

}  // namespace ddprun::trainer
