#include "trainer/report/checkpoint_owner.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <thread>
#include <utility>

#include "base/atomic_file.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnerFile = "/owner";
constexpr std::string_view kRun = "run ";
constexpr std::string_view kFolder = "folder ";

Error CannotRead(const std::string& path, int error_number) {
  return Error{.title = "RUN FOLDER",
               .where = path,
               .what = "It cannot be read: " + ErrnoText(error_number) + ". Nothing was changed.",
               .hint = "Start again once it can be read.",
               .page = "run-folder"};
}

bool IsOfAnotherUser(const std::string& path) {
  struct stat status = {};
  return ::stat(fs::path(path).parent_path().c_str(), &status) == 0 && status.st_uid != ::geteuid();
}

Result<std::string> ReadToEnd(int fd, const std::string& path) {
  std::string text;
  std::array<char, 1 << 14> block;
  while (true) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, errno);
    if (got == 0) return text;
    text.append(block.data(), static_cast<size_t>(got));
  }
}

std::string OwnerText(const CheckpointOwner& owner) {
  return std::string(kRun) + owner.run + "\n" + std::string(kFolder) + owner.run_folder + "\n";
}

// Writes in place, because the file is also the lock.
Status WriteOwner(const std::string& folder, const CheckpointOwner& owner, const UniqueFd& file) {
  const std::string path = folder + kOwnerFile;
  const std::string text = OwnerText(owner);
  if (::ftruncate(file.get(), 0) != 0 || ::lseek(file.get(), 0, SEEK_SET) != 0) {
    return CannotWrite(path, errno);
  }
  return WriteAll(file.get(), text, path);
}

Error OfAnotherRun(const std::string& folder, const CheckpointOwner& owner) {
  return Error{.code = Code::kUsage,
               .title = "CHECKPOINTS OF ANOTHER RUN",
               .where = folder,
               .what = "The checkpoints there are those of the run in " + owner.run_folder +
                       ". Nothing was changed.",
               .hint =
                   "Name another folder with checkpoint.dir, or go on with that run "
                   "(--resume).",
               .page = "checkpoints-of-another-run"};
}

UniqueFd MakeOwnerFile(const std::string& folder) {
  return UniqueFd(
      ::open((folder + kOwnerFile).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

}  // namespace

Result<std::optional<std::string>> ReadIfExists(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    const int error_number = errno;
    if (error_number == ENOENT || error_number == ENOTDIR) return std::optional<std::string>();
    if (error_number == EACCES && IsOfAnotherUser(path)) return std::optional<std::string>();
    return CannotRead(path, error_number);
  }
  DDPRUN_ASSIGN(std::string text, ReadToEnd(fd.get(), path));
  return std::optional(std::move(text));
}

Status LockFile(const UniqueFd& file,
                const std::string& folder,
                std::chrono::milliseconds patience) {
  const auto begin = std::chrono::steady_clock::now();
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) break;  // a file system without locks
    if (std::chrono::steady_clock::now() - begin >= patience) {
      return Error{.title = "RUN IN USE",
                   .where = folder,
                   .what = "Another process trains in this run folder.",
                   .hint =
                       "Wait until it has ended, or give this run a name of its own "
                       "(run.name).",
                   .page = "run-in-use"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return {};
}

Result<std::optional<CheckpointOwner>> OwnerOf(const std::string& folder) {
  DDPRUN_ASSIGN(const std::optional<std::string> text, ReadIfExists(folder + kOwnerFile));
  CheckpointOwner owner;
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kRun)) owner.run = line.substr(kRun.size());
    if (line.starts_with(kFolder)) owner.run_folder = line.substr(kFolder.size());
  }
  // A crash may have left the file incomplete.
  if (owner.run.empty() || owner.run_folder.empty()) return std::optional<CheckpointOwner>();
  return std::optional(std::move(owner));
}

std::optional<UniqueFd> ClaimNewFolder(const std::string& folder, const CheckpointOwner& owner) {
  std::error_code error;
  fs::create_directories(folder, error);
  const bool empty = fs::is_empty(folder, error);
  if (!error && !empty) return std::nullopt;
  UniqueFd file = MakeOwnerFile(folder);
  if (!file.valid()) return errno == EEXIST ? std::nullopt : std::optional(std::move(file));
  (void)LockFile(file, folder, {});
  (void)WriteOwner(folder, owner, file);
  return file;
}

void WithdrawClaim(const std::string& folder) {
  std::error_code ignored;
  fs::remove(folder + kOwnerFile, ignored);
  fs::remove(folder, ignored);  // only if it is empty
}

Result<UniqueFd> HoldOwnFolder(const std::string& folder,
                               const std::string& run,
                               std::chrono::milliseconds patience) {
  DDPRUN_ASSIGN(const std::optional<CheckpointOwner> owner, OwnerOf(folder));
  if (!owner) return UniqueFd();
  if (owner->run != run) return OfAnotherRun(folder, *owner);
  UniqueFd file(::open((folder + kOwnerFile).c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return CannotRead(folder + kOwnerFile, errno);
  DDPRUN_TRY(LockFile(file, folder, patience));
  return file;
}

Status KeepOwnFolder(const std::string& folder, const CheckpointOwner& owner, UniqueFd& held) {
  std::error_code error;
  if (!held.valid()) {
    if (!fs::exists(folder, error)) return {};
    held = UniqueFd(::open((folder + kOwnerFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!held.valid()) return {};
    DDPRUN_TRY(LockFile(held, folder, {}));
  }
  DDPRUN_ASSIGN(const std::optional<CheckpointOwner> now, OwnerOf(folder));
  if (now && now->run != owner.run) return OfAnotherRun(folder, *now);
  if (now && now->run_folder == owner.run_folder) return {};
  return WriteOwner(folder, owner, held);
}

}  // namespace ddprun::trainer
