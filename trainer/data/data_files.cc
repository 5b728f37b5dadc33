#include "trainer/data/data_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <unordered_set>

#include "base/unique_fd.h"
#include "trainer/data/glob.h"

namespace ddprun::trainer {

std::vector<std::string> ExpandFiles(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  std::unordered_set<std::string> seen;
  for (const std::string& pattern : patterns) {
    for (std::string& file : ValueOrThrow(ExpandGlob(pattern))) {
      std::error_code ignored;
      const std::string canonical = std::filesystem::canonical(file, ignored).string();
      if (seen.insert(canonical).second) files.push_back(std::move(file));
    }
  }
  return files;
}

FileBytes ReadDataFile(const std::string& path, size_t padding) {
  // O_NONBLOCK: opening a pipe would wait for its writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    throw UnreadableFile(path, ErrnoText(errno));
  }
  if (!S_ISREG(status.st_mode)) throw UnreadableFile(path, "it is no regular file");
  FileBytes bytes;
  const auto expected = static_cast<size_t>(status.st_size);
  bytes.storage.resize(expected + padding);
  while (bytes.size < expected) {
    const ssize_t count =
        ::read(fd.get(), bytes.storage.data() + bytes.size, expected - bytes.size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw UnreadableFile(path, ErrnoText(errno));
    if (count == 0) break;  // it has shrunk since; what is there was read
    bytes.size += static_cast<size_t>(count);
  }
  bytes.storage.resize(bytes.size + padding);
  return bytes;
}

Failure UnreadableFile(const std::string& path, const std::string& reason) {
  return Failure(Error{.code = Code::kFailed,
                       .title = "DATA FILE CANNOT BE READ",
                       .where = path,
                       .what = "\"" + path + "\" cannot be read: " + reason + ".",
                       .hint = "A regular file that this user may read is expected.",
                       .page = "unreadable-data-file"});
}

Failure WrongDataFile(const std::string& path, const std::string& found, const std::string& hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "WRONG DATA FILE",
                       .where = path,
                       .what = found,
                       .hint = hint,
                       .page = "wrong-data-file"});
}

}  // namespace ddprun::trainer
