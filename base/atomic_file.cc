#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

const char* HintFor(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return "The disk is full: make room on it, or write to another one.";
    case EDQUOT:
      return "Your quota on this disk is used up: remove files, or write to another disk.";
    case EFBIG:
      return "The file would be larger than this process may write: raise `ulimit -f`.";
    case EACCES:
    case EPERM:
    case EROFS:
      return "Write to a folder in which this user may make files.";
    case ENOENT:
    case ENOTDIR:
      return "Make the folder first, or correct the path.";
    case EISDIR:
    case ENOTSUP:
      return "Name a file: a folder, a device or a pipe is not replaced by one.";
    case EMFILE:
    case ENFILE:
      return "Too many files are open: raise `ulimit -n`.";
    default:
      return "Look at the folder, its permissions and the space on its disk.";
  }
}

Status SyncFolderOf(const std::string& path) {
  return SyncFolder(fs::path(path).parent_path().string());
}

}  // namespace

Error CannotWrite(const std::string& path, int error_number) {
  return Error{.title = "CANNOT WRITE A FILE",
               .where = path,
               .what = "\"" + path + "\" cannot be written: " + ErrnoText(error_number) + ".",
               .hint = HintFor(error_number),
               .page = "cannot-write"};
}

Result<UniqueFd> OpenToAppend(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.valid()) return CannotWrite(path, errno);
  return fd;
}

int WriteBytes(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  const int error_number = WriteBytes(fd, bytes);
  return error_number == 0 ? Status() : CannotWrite(path, error_number);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, UniqueFd fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<AtomicFile> AtomicFile::Create(std::string path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return CannotWrite(path, S_ISDIR(status.st_mode) ? EISDIR : ENOTSUP);
  }
  // A process of another container may have this process's number and write to this folder.
  const std::string first = path + "." + std::to_string(::getpid());
  for (int number = 1;; ++number) {
    std::string temporary = first + (number == 1 ? "" : "-" + std::to_string(number)) + ".tmp";
    UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd.valid()) return AtomicFile(std::move(path), std::move(temporary), std::move(fd));
    if (errno != EEXIST) return CannotWrite(path, errno);
  }
}

Status AtomicFile::Write(std::string_view bytes) {
  return WriteAll(fd_.get(), bytes, path_);
}

Status AtomicFile::RewriteBeginning(std::string_view bytes) {
  if (::lseek(fd_.get(), 0, SEEK_SET) != 0) return CannotWrite(path_, errno);
  return Write(bytes);
}

Status AtomicFile::Finish(Durability durability) {
  const bool synced = durability == Durability::kSynced;
  if (synced && ::fsync(fd_.get()) != 0) return CannotWrite(path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return CannotWrite(path_, errno);
  temporary_.clear();
  // The file's name survives a crash only if the folder is synced, too.
  return synced ? SyncFolderOf(path_) : Status();
}

Status WriteFileAtomically(const std::string& path,
                           std::span<const std::string_view> parts,
                           Durability durability) {
  DDPRUN_ASSIGN(AtomicFile file, AtomicFile::Create(path));
  for (const std::string_view part : parts) DDPRUN_TRY(file.Write(part));
  return file.Finish(durability);
}

Status WriteFileAtomically(const std::string& path, std::string_view text, Durability durability) {
  return WriteFileAtomically(path, std::span(&text, 1), durability);
}

Status SyncFolder(const std::string& folder) {
  const UniqueFd fd(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return CannotWrite(folder, errno);
  return {};
}

}  // namespace ddprun
