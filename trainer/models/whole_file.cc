#include "trainer/models/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/unique_fd.h"

namespace ddprun::trainer {

namespace {

Status WriteAll(int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("writing " + path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status WriteTemporary(const std::string& path, std::span<const std::string_view> parts) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) return SystemError("creating " + path, errno);
  for (const std::string_view part : parts) DDPRUN_TRY(WriteAll(fd.get(), path, part));
  if (::fsync(fd.get()) != 0) return SystemError("syncing " + path, errno);
  return {};
}

}  // namespace

Status WriteWholeFile(const std::string& path, std::span<const std::string_view> parts) {
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  if (Status status = WriteTemporary(temporary, parts); !status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    Error error = SystemError("renaming " + temporary + " to " + path, errno);
    ::unlink(temporary.c_str());
    return error;
  }
  // The name itself is safe only once the folder is.
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const UniqueFd fd(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) {
    return SystemError("syncing the folder " + folder.string(), errno);
  }
  return {};
}

}  // namespace ddprun::trainer
